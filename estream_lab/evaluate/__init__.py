"""Quality: rankings of choices, bits per byte of a text, and what each step of the device's arithmetic does to them."""

from estream_lab.evaluate.ranking import ChoiceScore, Ranking, rank_choices

__all__ = ["ChoiceScore", "Ranking", "rank_choices"]
