"""docs/measured/image.md is what `make image` writes, its targets are met, and other files agree with what it found."""

import re

import yaml

from bench.deploy.image import MOST_BYTES, PAGE, USER, WRITABLE, ImageFact, page_of
from tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "deploy"


def rows() -> list[list[str]]:
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return cells[1:]


def test_every_target_is_met() -> None:
    assert [what for what, _, _, met in rows() if met != "yes"] == []
    found = {what: number for what, number, *_ in rows()}
    assert int(found["size, unpacked"].removesuffix(" MB")) * 1e6 < MOST_BYTES == 400_000_000


def test_a_missed_target_is_seen_on_the_page() -> None:
    text = page_of([ImageFact("size", "500 MB", "below 400 MB", False)], "buildah")
    assert "| size | 500 MB | below 400 MB | **no** |" in text


def test_chart_and_compose_make_the_folders_writable_that_must_be() -> None:
    manifest = next(
        one
        for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
        if one["kind"] == "StatefulSet"
    )
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")} == set(WRITABLE)
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["filter"]
    writable = {volume for volume in service["volumes"] if ":" not in volume}
    assert writable | {place.split(":")[0] for place in service["tmpfs"]} == set(WRITABLE)


def test_the_image_is_looked_at_as_its_own_user() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"(?m)^USER (\S+)$", dockerfile) == [f"{USER}:{USER}"]
