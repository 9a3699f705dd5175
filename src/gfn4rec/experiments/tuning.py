"""The search that comes before an experiment: each model that is to be compared gets the same number of trials."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfn4rec.experiments.lab import Lab
from gfn4rec.experiments.models import MODELS, base_of
from gfn4rec.experiments.protocol import Need, Protocol, has_setting
from gfn4rec.experiments.published import published_for
from gfn4rec.experiments.search import Progress, SearchConfig, check_search, one_of, search
from gfn4rec.experiments.spaces import grid_of
from gfn4rec.experiments.tuned import TUNED, read_tuned, write_tuned
from gfn4rec.experiments.world import World
from gfn4rec.training.config import KINDS, merge_changes


def tune(
    protocol: Protocol,
    needs: Sequence[Need],
    num_trials: int,
    lab: Lab,
    out: Path,
    report: Progress = lambda *_: None,
) -> Protocol:
    """The protocol with the best settings of a line search, learned online and offline each for itself.

    What is wrong with any of the searches is told before the first. What other searches have found stays in the file.
    """
    protocol = with_published_settings(protocol, lab.world)
    configs = {need: _config(need, protocol, num_trials) for need in _searched(needs)}
    for (_, name), config in configs.items():
        check_search(MODELS[name].policy, config)
    path = out / TUNED
    kept = read_tuned(path) if path.exists() else {}
    found = {kind: dict(protocol.tuned.get(kind, {})) for kind in KINDS}
    for index, ((kind, name), config) in enumerate(configs.items()):
        progress = one_of(report, f"{name}, {kind}", index, len(configs))
        best = search(MODELS[name].policy, config, lab, out, report=progress)
        found[kind][name] = dict(best.changes)
        write_tuned(path, {kind: {**kept.get(kind, {}), **found[kind]} for kind in KINDS})
    return replace(protocol, tuned=found)


def _searched(needs: Sequence[Need]) -> list[Need]:
    """A variant has what is found for the model that it is one of; where all is fixed, there is nothing to find."""
    open_ones = [need for need in needs if not grid_of(MODELS[need[1]].policy).keys() <= MODELS[need[1]].fixed.keys()]
    return list(dict.fromkeys((kind, base_of(name)) for kind, name in open_ones))


def _config(need: Need, protocol: Protocol, num_trials: int) -> SearchConfig:
    kind, name = need
    budget, model = protocol.budget, MODELS[name]

    def that_it_has(settings: Mapping[str, Any]) -> dict[str, Any]:
        is_there = {key: has_setting(kind, model.policy, key) for key in settings}
        return {key: value for key, value in settings.items() if is_there[key] and key != "num_steps"}

    return SearchConfig(
        kind=kind,
        num_trials=num_trials,
        num_steps=budget.study_trial_steps if model.is_study else budget.trial_steps,
        changes=that_it_has(merge_changes(protocol.changes, model.fixed)),
        start=that_it_has(
            merge_changes(
                protocol.start(need), {"warmup_steps": budget.warmup_steps, "ranker.first_steps": budget.ranker_steps}
            )
        ),
        values=dict(model.values),
    )


def with_published_settings(protocol: Protocol, world: World) -> Protocol:
    """Where no search has been made, GFN4Rec gets what the paper's search ended with."""
    of_paper = published_for(world.data.name, world.data.settings)
    if of_paper is None:
        return protocol
    tuned = {kind: {"gfn": of_paper.settings, **protocol.tuned.get(kind, {})} for kind in KINDS}
    return replace(protocol, tuned=tuned)
