"""The sanitiser masks a number after the sign ≈, and nothing else."""

import re
from pathlib import Path

import pytest
from nbval.plugin import get_sanitize_patterns

CONFIG = Path(__file__).resolve().parents[1] / "nbval_sanitize.cfg"
PATTERNS = get_sanitize_patterns(CONFIG.read_text(encoding="ascii"))


def sanitise(text: str) -> str:
    for pattern, replacement in PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("printed", "compared"),
    [
        ("loss ≈ 1.739", "loss ≈ #"),
        ("loss ≈1.74.", "loss ≈ #."),
        ("loss ≈   -0.5 nats", "loss ≈ # nats"),
        ("≈ \N{MINUS SIGN}0.5", "≈ #"),
        ("≈ +3", "≈ #"),
        ("≈ .5", "≈ #"),
        ("≈ 12%, then ≈ 13 %", "≈ #%, then ≈ # %"),
        ("≈ 1.2e-07, ≈ 1E+5", "≈ #, ≈ #"),
        ("≈ nan and ≈ -inf", "≈ # and ≈ #"),
        ("≈ 1,234.5 s", "≈ # s"),
        ("≈ 2.1x the time", "≈ #x the time"),
        ("(≈ 1.7, ≈ 1.8)", "(≈ #, ≈ #)"),
        ("[≈ 1, 2]", "[≈ #, 2]"),
    ],
)
def test_a_measurement_is_masked(printed: str, compared: str) -> None:
    assert sanitise(printed) == compared


@pytest.mark.parametrize(
    "text",
    ["loss 1.739", "4 ranks", "≈ the prediction 1.7", "1.7 ≈", "≈\n1.7", "yes", "/tmp/run_12"],
)
def test_anything_else_is_compared(text: str) -> None:
    assert sanitise(text) == text


def test_a_column_stays_a_column() -> None:
    assert sanitise(f"≈{9.98:8.3f} |") == sanitise(f"≈{-10.02:8.3f} |")
