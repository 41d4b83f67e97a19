"""Settings come from file, environment and flags, the later ones winning, and a mistake is explained."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.load import load_settings, misspelt_variables
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.reference import example_toml
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SCHEME_SETTINGS, ChainSettings, SpotsieveSettings
from spotsieve.stream.base.settings.section import leaf_settings
from spotsieve.stream.sign.schemes.registry import SCHEMES
from tests.conftest import REPOSITORY

NOTHING: Mapping[str, str] = {}


def written(directory: Path, text: str) -> Path:
    path = directory / "spotsieve.toml"
    path.write_text(text, "utf-8")
    return path


def refusal(
    path: Path | None = None, environ: Mapping[str, str] = NOTHING, flags: Mapping[str, object] = NOTHING
) -> str:
    with pytest.raises(SettingError) as caught:
        load_settings(path, environ, flags)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_without_anything_the_settings_are_the_defaults() -> None:
    assert load_settings(None, NOTHING, {}) == Settings()


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[kafka]\ngroup_id = "file"\nclient_id = "file"\nbootstrap_servers = "file:1"\n')
    environ = {"SPOTSIEVE_KAFKA__GROUP_ID": "environment", "SPOTSIEVE_KAFKA__CLIENT_ID": "environment"}
    found = load_settings(path, environ, {"kafka.group_id": "flag", "kafka.client_id": None}).kafka
    assert (found.group_id, found.client_id, found.bootstrap_servers) == ("flag", "environment", "file:1")


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("SPOTSIEVE_SERVICE__BATCH_PAGES", "64", ("service", "batch_pages"), 64),
        ("SPOTSIEVE_METRICS__ENABLED", "false", ("metrics", "enabled"), False),
        ("SPOTSIEVE_LOG__SUMMARY_SECONDS", "0.5", ("log", "summary_seconds"), 0.5),
        ("SPOTSIEVE_INPUT__FIELDS__URL", "meta.url", ("input", "fields", "url"), "meta.url"),
        ("SPOTSIEVE_SCHEME__NAME", "chain", ("scheme", "name"), "chain"),
        ("SPOTSIEVE_KAFKA__BOOTSTRAP_SERVERS", "[::1]:9092", ("kafka", "bootstrap_servers"), "[::1]:9092"),
        ("SPOTSIEVE_INDEX__DIRECTORY", "/data", ("index", "directory"), Path("/data")),
    ],
)
def test_the_environment_reaches_every_kind_of_setting(
    name: str, value: str, path: tuple[str, ...], expected: object
) -> None:
    found: object = load_settings(None, {name: value}, {})
    for part in path:
        found = getattr(found, part)
    assert found == expected


def test_variables_of_others_are_left_alone() -> None:
    # Kubernetes sets such ones for a Service named spotsieve.
    environ = {"SPOTSIEVE_SERVICE_HOST": "10.0.0.1", "SPOTSIEVE_PORT_9464_TCP": "tcp://10.0.0.1:9464", "PATH": "/bin"}
    assert load_settings(None, environ, {}) == Settings()


def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word\n", "utf-8")
    found = load_settings(None, {"SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE": str(secret)}, {}).kafka.sasl_password
    assert found.get_secret_value() == "pass word"


def test_a_secret_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    text = refusal(environ={"SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE": str(tmp_path / "none")})
    assert "SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE" in text
    assert str(tmp_path / "none") in text


@pytest.mark.parametrize("secret", ["sasl_password", "ssl_key_password"])
def test_a_file_of_a_secret_can_be_named_wherever_a_setting_can(tmp_path: Path, secret: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("of the file\r\n", "utf-8")
    second.write_text("of the variable", "utf-8")
    config = written(tmp_path, f"[kafka]\n{secret}_file = {str(first)!r}\n")
    variable, flag = f"SPOTSIEVE_KAFKA__{secret.upper()}", f"kafka.{secret}"

    def found(environ: dict[str, str], flags: dict[str, object]) -> str:
        value = getattr(load_settings(config, environ, flags).kafka, secret)
        assert isinstance(value, SecretStr)
        return value.get_secret_value()

    assert found({}, {}) == "of the file"
    assert found({f"{variable}_FILE": str(second)}, {}) == "of the variable"
    assert found({variable: "itself"}, {}) == "itself", "the environment wins over the file's file"
    assert found({variable: "itself"}, {f"{flag}_file": str(second)}) == "of the variable"
    assert found({f"{variable}_FILE": str(second)}, {flag: "a flag"}) == "a flag"


def test_a_secret_and_its_file_in_one_place_are_refused(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, '[kafka]\nsasl_password = "hunter2"\nsasl_password_file = "f"\n'))
    assert text.startswith("kafka.sasl_password_file and sasl_password must not both be set")
    assert "hunter2" not in text


def test_a_secret_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    text = refusal(written(tmp_path, f"[kafka]\nsasl_password_file = {str(tmp_path / 'secret')!r}\n"))
    assert "kafka.sasl_password_file must name a readable file: it is not UTF-8" in text


def test_a_name_below_a_setting_is_told_without_the_value(tmp_path: Path) -> None:
    config = written(tmp_path, '[kafka]\nsasl_password = "hunter2"\n')
    for environ in ({}, {"SPOTSIEVE_KAFKA__SASL_PASSWORD": "hunter2"}):
        for path in (config, None) if environ else (config,):
            with pytest.raises(SettingError, match=r"kafka\.sasl_password is a setting, not a section") as caught:
                load_settings(path, {**environ, "SPOTSIEVE_KAFKA__SASL_PASSWORD__FILE": "/run/kafka"}, {})
            assert "hunter2" not in str(caught.value)
            assert "_file directly behind the name" in str(caught.value)
    with pytest.raises(SettingError, match=r"kafka\.sasl_password is a setting, not a section"):
        load_settings(None, {"SPOTSIEVE_KAFKA__SASL_PASSWORD__FILE": "/run/kafka"}, {})
    assert refusal(written(tmp_path, "[kafka.group_id]\nx = 1\n")).startswith(
        "kafka.group_id is a setting, not a section"
    )


def test_a_variable_that_is_no_misspelling_gets_no_warning() -> None:
    assert misspelt_variables({"SPOTSIEVE_RULES": "[]"}) == []


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf[kafka]\r\ngroup_id = 'g'\r\n")
    assert load_settings(tmp_path / "a.toml", {}, {}).kafka.group_id == "g"


def test_a_secret_is_shown_nowhere(tmp_path: Path) -> None:
    settings = load_settings(None, {"SPOTSIEVE_KAFKA__SASL_PASSWORD": "hunter2"}, {})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings.model_dump())
    assert "hunter2" not in settings.model_dump_json()
    for line in ('sasl_password = ["hunter2"]', 'sasl_pasword = "hunter2"', 'sasl_password = {a = "hunter2"}'):
        assert "hunter2" not in refusal(written(tmp_path, f"[kafka]\n{line}\n"))
    assert "hunter2" not in refusal(written(tmp_path, "[kafka]\nsasl_password = hunter2\n"))


@pytest.mark.parametrize(
    ("text", "wrong", "near"),
    [
        ("[kafka]\ngroupid = 'a'\n", "kafka.groupid", "kafka.group_id"),
        ("[input.field]\nurl = 'a'\n", "input.field", "input.fields"),
        ("[servce]\nmode = 'filter'\n", "servce", "service"),
        ("[scheme]\nmin_contaiment = 0.3\n", "scheme.min_contaiment", "scheme.min_containment"),
        ("[scheme]\nmin_alike = 0.5\n", "scheme.min_alike", "scheme.min_containment"),
        ("[scheme]\nmin_jaccard = 0.3\n", "scheme.min_jaccard", "scheme.min_containment"),
        ("[kafka]\nstart_again = 'latest'\n", "kafka.start_again", "kafka.restart_from"),
        ("[serve]\nmost_body_bytes = 1024\n", "serve.most_body_bytes", "serve.max_body_bytes"),
        ("[serve]\nmost_pages = 10\n", "serve.most_pages", "serve.max_pages"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(tmp_path: Path, text: str, wrong: str, near: str) -> None:
    message = refusal(written(tmp_path, text))
    assert message.startswith(f"{wrong} is not a setting")
    assert f"did you mean {near}?" in message


def test_an_unknown_name_in_the_environment_or_a_flag_suggests_the_nearest_too() -> None:
    assert "did you mean kafka.group_id?" in refusal(environ={"SPOTSIEVE_KAFKA__GROUPID": "a"})
    assert "did you mean service.mode?" in refusal(flags={"service.modus": "a"})


def test_a_mistake_from_the_environment_names_its_variable() -> None:
    assert refusal(environ={"SPOTSIEVE_METRICS__PORT": "x"}).startswith("metrics.port (from SPOTSIEVE_METRICS__PORT) ")
    environ = {"SPOTSIEVE_METRICS__PORT": "1"}
    assert refusal(environ=environ, flags={"metrics.port": "x"}).startswith("metrics.port should be")


def test_a_value_where_a_section_belongs_is_told_in_the_words_of_the_file() -> None:
    message = refusal(flags={"kafka": "x"})
    assert message == "kafka is a section, not a setting, got 'x'; write [kafka], and below it NAME = VALUE"


def test_a_variable_with_single_underscores_is_not_read() -> None:
    assert load_settings(None, {"SPOTSIEVE_KAFKA_GROUP_ID": "a", "SPOTSIEVE_PORT": "tcp://b:1"}, {}) == Settings()


def test_a_name_like_nothing_points_to_the_example(tmp_path: Path) -> None:
    assert "spotsieve config example" in refusal(written(tmp_path, "qqqqqqqq = 1\n"))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("[scheme]\nminima = 256\n", "scheme.minima", "256"),
        ("[scheme]\nmin_containment = 1.5\n", "scheme.min_containment", "1.5"),
        ("[service]\nmode = 'both'\n", "service.mode", "'both'"),
        ("[service]\nbatch_pages = 0\n", "service.batch_pages", "0"),
        ("[metrics]\nport = 70000\n", "metrics.port", "70000"),
        ("[kafka]\ngroup_id = ''\n", "kafka.group_id", "''"),
        ("[input]\nurl_from = 'value'\n", "input.url_from", "'value'"),
        ("kafka = 3\n", "kafka", "3"),
    ],
)
def test_a_wrong_value_is_told_with_name_rule_value_and_next_step(
    tmp_path: Path, text: str, name: str, value: str
) -> None:
    message = refusal(written(tmp_path, text))
    assert message.startswith(f"{name} ")
    assert f"got {value}" in message
    assert "; " in message


def test_a_scheme_that_is_only_named_has_its_own_defaults_and_what_is_given_wins(tmp_path: Path) -> None:
    assert load_settings(None, NOTHING, {"scheme.name": "chain"}).scheme == ChainSettings()
    path = written(tmp_path, '[scheme]\nname = "chain"\nmax_distance_bits = 2\ntables = 3\n')
    assert load_settings(path, NOTHING, {}).scheme == ChainSettings(max_distance_bits=2, tables=3)
    environ = {"SPOTSIEVE_SCHEME__NAME": "chain", "SPOTSIEVE_SCHEME__ANTECEDENTS": '["the", "a"]'}
    assert load_settings(None, environ, {}).scheme == ChainSettings(antecedents=("the", "a"))


def test_without_a_name_the_settings_are_those_of_the_default_scheme(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, "[scheme]\nminima = 4\n"), NOTHING, {}).scheme == SpotsieveSettings(minima=4)


def test_a_setting_of_another_scheme_is_refused_and_the_scheme_that_has_it_is_named(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "[scheme]\nchain_length = 4\n"))
    assert message.startswith(
        "scheme.chain_length is not a setting of the scheme spotsieve, but of chain, imatch-s, spotsigs, spotsigs-lsh; "
    )
    assert 'write name = "chain" in [scheme]' in message
    message = refusal(environ={"SPOTSIEVE_SCHEME__MINIMA": "4"}, flags={"scheme.name": "chain"})
    assert message.startswith(
        "scheme.minima (from SPOTSIEVE_SCHEME__MINIMA) is not a setting of the scheme chain, but of "
    )


def test_an_unknown_scheme_is_refused_with_all_names_and_the_nearest() -> None:
    message = refusal(flags={"scheme.name": "chains"})
    assert message == f"scheme.name must be one of {', '.join(SCHEMES)}, got 'chains'; did you mean chain?"
    assert "spotsieve config example" in refusal(flags={"scheme.name": "qqqq"})
    variable = {"SPOTSIEVE_SCHEME__NAME": "Chain"}
    assert refusal(environ=variable).startswith("scheme.name (from SPOTSIEVE_SCHEME__NAME) must be one of ")


def test_the_union_of_settings_and_the_registry_hold_the_same_schemes() -> None:
    registered = {name: entry.settings for name, entry in SCHEMES.items()}
    assert sorted(set(SCHEME_SETTINGS) - set(registered)) == [], "add it to SCHEMES in stream/sign/schemes/registry.py"
    assert registered == SCHEME_SETTINGS, "add it to SchemeSettings in stream/base/settings/schemes/__init__.py"
    assert next(iter(SCHEMES)) == DEFAULT_SCHEME == Settings().scheme.name


@pytest.mark.parametrize("name", SCHEMES)
def test_only_the_settings_of_the_scheme_that_is_chosen_are_those_of_a_state(name: str) -> None:
    stored = json.loads(verdict_settings_text(load_settings(None, NOTHING, {"scheme.name": name})))
    # of a model the digest changes verdicts, and not where it lies
    expected = {f"scheme.{field}" for field in SCHEME_SETTINGS[name].model_fields} - {"scheme.idf_model"}
    assert {field for field in stored if field.startswith("scheme.")} == expected
    assert not any(field.startswith("spots.") for field in stored)


def test_bad_toml_names_the_file_and_the_place(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "[kafka\n"))
    assert "spotsieve.toml" in message
    assert "line 1" in message


def test_a_file_that_is_not_utf_8_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "spotsieve.toml"
    path.write_bytes(b'[kafka]\ngroup_id = "\xff"\n')
    assert "must be TOML" in refusal(path)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    assert "none.toml cannot be read" in refusal(tmp_path / "none.toml")
    assert "cannot be read" in refusal(tmp_path)


def test_a_list_that_is_none_shows_how_to_write_one() -> None:
    message = refusal(environ={"SPOTSIEVE_SCHEME__NAME": "chain", "SPOTSIEVE_SCHEME__ANTECEDENTS": "the, a"})
    assert message.startswith("SPOTSIEVE_SCHEME__ANTECEDENTS must be a JSON list, got 'the, a'")
    assert '["a", "b"]' in message


def test_a_setting_below_a_setting_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "kafka = 'broker:9092'\n")
    assert "kafka" in refusal(path, {"SPOTSIEVE_KAFKA__GROUP_ID": "a"})


def example(scheme: str) -> str:
    """The example with its commented settings."""
    return re.sub(r"^#(\w+ = )", r"\1", example_toml(scheme), flags=re.MULTILINE)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_example_of_a_scheme_loads_and_equals_its_defaults(tmp_path: Path, name: str) -> None:
    loaded = load_settings(written(tmp_path, example_toml(name)), NOTHING, {})
    assert loaded == Settings(scheme=SCHEME_SETTINGS[name]())


def test_the_example_begins_with_what_most_people_set_and_names_the_other_schemes() -> None:
    text = example_toml()
    sections = re.findall(r"(?m)^\[([a-z]+)\]", text)
    assert sections[:3] == ["kafka", "topics", "input"]
    assert text.splitlines().index("[kafka]") < 10
    comment = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
    assert f"NAME is one of: {', '.join(name for name in SCHEMES if name != 'spotsieve')}." in comment


def test_an_example_of_an_unknown_scheme_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean minhash"):
        example_toml("minhsh")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("SPOTSIEVE_KAFKA_GROUP_ID", "SPOTSIEVE_KAFKA__GROUP_ID"),
        ("SPOTSIEVE_INPUT_FIELDS_URL", "SPOTSIEVE_INPUT__FIELDS__URL"),
        ("SPOTSIEVE_KAFKA_SASL_PASSWORD_FILE", "SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE"),
        ("SPOTSIEVE_SCHEME_MAX_DISTANCE_BITS", "SPOTSIEVE_SCHEME__MAX_DISTANCE_BITS"),
    ],
)
def test_a_variable_with_one_underscore_gets_a_warning_with_the_right_name(name: str, right: str) -> None:
    (warning,) = misspelt_variables(
        {name: "secret", "SPOTSIEVE_KAFKA__GROUP_ID": "a", "SPOTSIEVE_HOME": "/", "PATH": ""}
    )
    assert warning == f"{name} is ignored: two underscores end a section; rename it to {right}"


def test_the_example_has_every_setting_with_its_unit_and_whether_it_changes_verdicts() -> None:
    texts = [example(name) for name in SCHEMES]
    parsed = [tomllib.loads(one) for one in texts]
    text = "\n".join(texts)
    for path, field in leaf_settings(Settings):
        assert any(holds(below, path) for below in parsed), path
        extra = field.json_schema_extra
        name = path[-1]
        comments = [
            lines[0]
            for lines in zip(text.splitlines(), text.splitlines()[1:], strict=False)
            if lines[1].startswith(f"{name} = ")
        ]
        assert any(field.description in comment for comment in comments), path
        if extra["unit"]:
            assert any(f"[{extra['unit']}]" in comment for comment in comments), path
        if extra["verdicts"]:
            assert any("[verdicts]" in comment for comment in comments), path


def holds(below: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if part not in below:
            return False
        below = below[part]
    return True


def test_every_setting_says_what_it_is() -> None:
    for path, field in leaf_settings(Settings):
        assert field.description, path
        assert set(field.json_schema_extra) == {"unit", "verdicts", "signs", "stored_default"}, path
        milliseconds_or_seconds = path[-1].endswith(("_ms", "_seconds", "_bytes", "_mb"))
        assert field.json_schema_extra["unit"] or not milliseconds_or_seconds, path


def test_settings_cannot_be_changed_after_loading() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings(None, NOTHING, {}).kafka.group_id = "other"  # type: ignore[misc]  # the test's point


def test_the_guide_has_the_defaults_of_the_thresholds() -> None:
    guide = (REPOSITORY / "docs" / "guide.md").read_text("utf-8")
    scheme = SpotsieveSettings()
    for name in ("min_containment", "max_fresh_words", "template_share", "min_features"):
        assert f"| `scheme.{name}` | {getattr(scheme, name):g}: " in guide
    assert f"under {scheme.minima} MinHash values" in guide


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"scheme.name": "manku", "scheme.k": "8"}, "less than or equal to 7, got '8'; its default is 3;"),
        ({"scheme.name": "subhash", "scheme.k": "11"}, "less than or equal to 10, got '11'; its default is 3;"),
        ({"scheme.name": "onebit", "scheme.r": "2"}, "less than or equal to 1, got '2'; its default is 0."),
        ({"service.batch_pages": "0"}, "greater than or equal to 1, got '0'; its default is 512;"),
    ],
)
def test_an_impossible_parameter_is_told_with_its_rule_and_a_value_that_is_valid(
    flags: dict[str, str], message: str
) -> None:
    assert message in refusal(flags=flags)
