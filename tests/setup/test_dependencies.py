"""pyproject.toml has the one list of dependencies; the other files add nothing to it."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
NAMED = [
    Requirement(line)
    for line in [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(line for extra in EXTRAS.values() for line in extra),
    ]
]


def lines(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    stripped = (line.partition("#")[0].rstrip() for line in text.splitlines())
    return [line for line in stripped if line]


def exact_versions() -> dict[str, str]:
    requirements = [Requirement(line) for line in lines("constraints.txt")]
    versions = {}
    for requirement in requirements:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not an exact version"
        assert "+" not in specifier.version, f"{requirement}: a local build is on no other machine"
        versions[canonicalize_name(requirement.name)] = specifier.version
    assert len(versions) == len(requirements), "a package is listed twice"
    return versions


def test_the_library_needs_torch_alone() -> None:
    (torch,) = PROJECT["project"]["dependencies"]
    assert Requirement(torch).name == "torch"


@pytest.mark.parametrize("requirement", NAMED, ids=lambda requirement: requirement.name)
def test_every_dependency_has_one_exact_version_within_its_range(requirement: Requirement) -> None:
    versions = exact_versions()
    name = canonicalize_name(requirement.name)
    assert name in versions, f"constraints.txt has no version of {name}"
    assert requirement.specifier.contains(versions[name])
    assert not any(part.operator == "==" for part in requirement.specifier), "use a range here"


def test_environment_yml_repeats_no_version_but_pythons() -> None:
    environment = lines("environment.yml")
    versions = [line.strip() for line in environment if re.search(r"\d", line)]
    assert versions == ["- python=3.11"]
    start = environment.index("dependencies:") + 1
    assert [line.strip() for line in environment[start:]] == [
        "- python=3.11",
        "- pip",
        "- pip:",
        "- -c constraints.txt",
        f"- -e .[{','.join(EXTRAS)}]",
    ]


def test_environment_yml_names_the_oldest_python_that_the_project_allows() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert "  - python=3.11" in lines("environment.yml")


def test_every_exact_version_allows_the_oldest_python() -> None:
    # Debian 12's Python is 3.11.2: a version that needs 3.11.5 cannot be installed there.
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    for name, wanted in exact_versions().items():
        installed = distribution(name)
        assert installed.version.partition("+")[0] == wanted
        needs = installed.metadata.get("Requires-Python") or ""
        assert SpecifierSet(needs).contains(oldest), f"{name}=={wanted} needs Python {needs}"
