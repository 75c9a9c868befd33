"""Explains why the names in a checkpoint do, or do not, fit a model.

A load fails over names far more often than over numbers. ``explain`` reads both sides (``sides``,
``container``), lays one tree of names over the other around wrappers (``segments``, ``align``),
looks for a prefix or a part (``match``) and last for renamed blocks (``blocks``), decides
(``judge``), spells the cure as one line of Python (``code``), and prints it (``words``,
``candor``). ``rename`` carries it out.
"""
