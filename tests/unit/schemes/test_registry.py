"""The table of schemes: every name leads to its class, and a process loads only the scheme that it uses."""

import subprocess
import sys

import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.schemes import ModelledSettings
from spotsieve.stream.sign.schemes.registry import SCHEMES, TERMS, scheme_of

OTHER_SCHEMES = ("adaptive_shingles", "concept", "minwise", "simhash", "spotsigs", "terms")


@pytest.mark.parametrize("name", SCHEMES)
def test_every_name_leads_to_a_scheme_of_that_name(name: str) -> None:
    settings = SCHEMES[name].settings()
    if isinstance(settings, ModelledSettings) or name == "concept":
        with pytest.raises(SettingError, match="must name a model of term statistics"):
            scheme_of(settings)
    else:
        assert scheme_of(settings).name == name


@pytest.mark.parametrize("name", TERMS)
def test_every_scheme_with_a_model_has_terms_that_describe_themselves(name: str) -> None:
    assert TERMS[name](SCHEMES[name].settings()).about.startswith("{")


def test_importing_the_registry_loads_no_scheme_but_the_default_one() -> None:
    modules = [f"spotsieve.stream.sign.schemes.{name}" for name in OTHER_SCHEMES]
    program = (
        "import sys, spotsieve.stream.sign.schemes.registry\n"
        f"print([name for name in {modules} if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


@pytest.mark.parametrize(
    ("name", "module"),
    [("chain", "simhash"), ("minhash", "minwise"), ("adaptive-shingles", "adaptive_shingles")],
)
def test_a_scheme_s_module_is_loaded_with_its_first_use(name: str, module: str) -> None:
    program = (
        "import sys\n"
        "from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of\n"
        f"scheme_of(SCHEMES[{name!r}].settings())\n"
        f"print('spotsieve.stream.sign.schemes.{module}' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "True\n"
