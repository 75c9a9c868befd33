"""The instructor guide has every lesson, with its minutes, and plans that add up."""

from __future__ import annotations

import re

from lesson_files import LESSONS, ROOT, read

GUIDE = (ROOT / "notebooks" / "instructor_guide.md").read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", GUIDE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_lesson_has_its_section() -> None:
    for path in LESSONS:
        facts = read(path).metadata["lesson"]
        start = f"{path.name[:2]} {facts['title']}: {facts['minutes']} minutes, exercises "
        (name,) = [name for name in sections() if name.startswith(start)]
        text = sections()[name]
        assert "| They believe | Say |" in text, name
        assert "**Look together**" in text, name
        for exercise in re.findall(r"[Ee]xercise (\d)", text):
            assert f"## Exercise {exercise}:" in "\n".join(c.source for c in read(path).cells), name


def test_the_plans_add_up() -> None:
    for plan in ("Half a day", "A whole day"):
        rows = re.findall(r"^\| (.+?) \| (\d*) \| (\d*) \| (\d+) \|$", sections()[plan], re.M)
        assert len(rows) >= 8
        total = 0
        for what, lesson, exercises, together in rows:
            total += int(lesson) + int(exercises or 0)
            assert total == int(together), what
            if re.match(r"\d\d [A-Z]", what):
                (path,) = [path for path in LESSONS if path.name.startswith(what[:2])]
                facts = read(path).metadata["lesson"]
                assert (what, int(lesson)) == (f"{what[:2]} {facts['title']}", facts["minutes"])
        assert f"Together {total} minutes" in sections()[plan]
    whole = sections()["A whole day"]
    assert all(f"| {path.name[:2]} " in whole for path in LESSONS)
