"""A state keeps the id and salt of its log through restarts, copies, exports and merges. Other logs are refused."""

import json
import shutil
from pathlib import Path

import pytest

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE
from spotsieve.state.format.meta import LogIdentity, StatePart
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import first_of_ours
from spotsieve.state.still.reading import describe
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.cli import main
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope, scheme_of
from tests.fixtures.filter_crawl import lines, page

ONE, OTHER = LogIdentity(bytes(range(16)), 5), LogIdentity(bytes(range(1, 17)), 6)


def log_of(directory: Path) -> tuple[str, str]:
    """Id and salt that `spotsieve state info` prints."""
    facts = describe(directory)
    return facts["log_id"], facts["salt"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "pages.jsonl").write_bytes(lines([page(seed) for seed in range(4)]))
    assert main(["filter", str(folder / "pages.jsonl"), "--state", str(folder / "state")]) == 0
    return folder


def test_every_new_state_draws_an_id_and_a_salt(made: Path, tmp_path: Path) -> None:
    assert main(["filter", str(made / "pages.jsonl"), "--state", str(tmp_path / "other")]) == 0
    for one, other in zip(log_of(made / "state"), log_of(tmp_path / "other"), strict=True):
        assert one != other
        assert int(one, 16)


def test_copies_exports_and_rebuilt_indexes_keep_the_log(made: Path, tmp_path: Path) -> None:
    state, kept = made / "state", log_of(made / "state")
    again, copied, exported = tmp_path / "again", tmp_path / "copied", tmp_path / "state.jsonl"
    assert main(["state", "snapshot", "--state", str(state), str(copied)]) == 0
    assert main(["state", "restore", str(copied), "--state", str(again)]) == 0
    assert main(["state", "export", "--state", str(state), "--out", str(exported)]) == 0
    assert main(["state", "import", str(exported), "--state", str(tmp_path / "imported")]) == 0
    assert [log_of(one) for one in (copied, again, tmp_path / "imported")] == [kept] * 3
    assert json.loads(exported.read_text().split("\n")[0])["log_id"] == kept[0]
    shutil.rmtree(again / INDEX_FOLDER)
    assert main(["filter", str(made / "pages.jsonl"), "--state", str(again)]) == 0
    assert log_of(again) == kept, "the log has both"


def test_the_index_of_another_log_is_refused_by_name(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed, other = tmp_path / "mixed", tmp_path / "other"
    assert main(["filter", str(made / "pages.jsonl"), "--state", str(other)]) == 0
    shutil.copytree(made / "state", mixed)
    shutil.copy(other / LOG_FILE, mixed / LOG_FILE)
    capsys.readouterr()
    assert main(["filter", str(made / "pages.jsonl"), "--state", str(mixed)]) == 4
    error = capsys.readouterr().err
    for name in (log_of(made / "state")[0][:12], log_of(other)[0][:12], str(mixed)):
        assert name in error
    assert any("must begin the log" in damage.rule for damage in verify(mixed).damages)


def test_a_new_state_adopts_the_salt_of_another_and_an_existing_one_refuses(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, state, new = str(made / "pages.jsonl"), str(made / "state"), str(tmp_path / "new")
    assert main(["filter", pages, "--state", new, "--salt-from", state]) == 0
    (log_id, salt), (new_id, new_salt) = log_of(made / "state"), log_of(tmp_path / "new")
    assert new_salt == salt
    assert new_id != log_id
    assert main(["filter", pages, "--state", new, "--salt-from", state]) == 0, "it has this salt"
    assert main(["filter", pages, "--state", str(tmp_path / "other")]) == 0
    capsys.readouterr()
    assert main(["filter", pages, "--state", str(tmp_path / "other"), "--salt-from", state]) == 2
    assert "index.salt_from must name a state with the salt of the state" in capsys.readouterr().err
    assert main(["filter", pages, "--salt-from", str(tmp_path / "none")]) == 2
    assert "index.salt_from must name a state" in capsys.readouterr().err
    none = tmp_path / "none"
    assert main(["filter", pages, "--state", str(tmp_path / "refused"), "--salt-from", str(none)]) == 2
    assert not (tmp_path / "refused").exists()


def test_a_run_killed_before_the_first_record_of_its_log_keeps_its_salt(tmp_path: Path) -> None:
    settings = Settings(index=IndexSettings(directory=tmp_path))
    with disk_state(tmp_path, verdict_settings_text(settings), LocalLog.name, settings.index) as state:
        state.adopt(ONE)
    with LocalEngine(tmp_path, settings, scheme_of(settings.scheme)) as local:
        assert local.engine.state.identity.log_identity == ONE
    with LocalLog(tmp_path) as log:
        found = first_of_ours(log.read_from(0), LocalLog.name)
    assert found is not None
    assert found[1].log == ONE


def test_a_state_adopts_one_log_only() -> None:
    state = memory_state()
    assert state.salt == 0
    state.adopt(ONE)
    state.adopt(ONE)
    assert state.salt == 5
    with pytest.raises(StateError, match=f"built from, which is {ONE}; the topic 'memory' holds another log, {OTHER}"):
        state.adopt(OTHER)
    with pytest.raises(
        StateError, match=r"has the salt 0000000000000005, and its log .* has the salt 0000000000000009"
    ):
        state.adopt(ONE._replace(salt=9))


def test_shards_of_two_logs_are_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, log in enumerate((ONE, OTHER)):
        with disk_state(tmp_path / f"{number}", "{}", "log", IndexSettings(), StatePart(number, 2)) as state:
            state.adopt(log)
    directories = [str(tmp_path / "0"), str(tmp_path / "1")]
    assert main(["state", "merge", *directories, "--state", str(tmp_path / "merged")]) == 4
    error = capsys.readouterr().err
    assert f"the log {ONE} (salt 0000000000000005), and is of the log {OTHER} (salt 0000000000000006)" in error
    assert not (tmp_path / "merged").exists()


def test_a_wrapped_scheme_signs_with_the_salt() -> None:
    settings = Settings.model_validate({"index": {"scope": "host"}, "policy": {"recrawl": "identical"}})
    plain = scheme_in_scope(settings)
    keyed = salted(plain, 7)
    inner, bare = keyed, plain
    while hasattr(inner, "inner"):
        inner, bare = inner.inner, bare.inner  # type: ignore[attr-defined]
    assert (inner.sieve.salt, bare.sieve.salt) == (7, 0)  # type: ignore[attr-defined]
    assert salted(keyed, 7).name == plain.name


def test_the_setting_needs_a_state(tmp_path: Path) -> None:
    index = IndexSettings(directory=tmp_path / "new", salt_from=tmp_path / "none")
    with pytest.raises(SettingError, match=r"index\.salt_from must name a state"):
        LocalEngine(tmp_path / "new", Settings(index=index), scheme_of(Settings().scheme))
