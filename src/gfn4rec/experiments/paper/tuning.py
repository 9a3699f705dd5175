"""The search for settings before an experiment, with the same number of trials for each compared model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.campaign import Lab
from gfn4rec.experiments.paper.models import MODELS, POLICY_OF, Settings, base_of
from gfn4rec.experiments.paper.protocol import Need, Protocol, has_setting
from gfn4rec.experiments.paper.published import published_for
from gfn4rec.experiments.search.search import ReportSearch, SearchConfig, check_search, report_part, search
from gfn4rec.experiments.search.spaces import grid_of
from gfn4rec.experiments.search.tuned import TUNED, read_tuned, write_tuned
from gfn4rec.training.config import MODES, Mode, merge_changes


def tune(
    protocol: Protocol,
    needs: Sequence[Need],
    num_trials: int,
    lab: Lab,
    out: Path,
    report: ReportSearch = lambda *_: None,
) -> Protocol:
    """Return the protocol with the best settings of a line search, separately for online and offline training.

    All searches are checked before the first one starts. Results of earlier searches stay in the file.
    """
    protocol = with_published_settings(protocol, lab.benchmark)
    configs = {need: _config(need, protocol, num_trials) for need in _searched(needs)}
    for (_, name), config in configs.items():
        check_search(MODELS[name].policy, config)
    path = out / TUNED
    earlier = read_tuned(path, POLICY_OF) if path.exists() else {}
    tuned: dict[Mode, dict[str, Settings]] = {mode: dict(protocol.tuned.get(mode, {})) for mode in MODES}
    for index, ((mode, name), config) in enumerate(configs.items()):
        progress = report_part(report, f"{name}, {mode}", index, len(configs))
        best = search(MODELS[name].policy, config, lab, out, report=progress)
        tuned[mode][name] = dict(best.changes)
        write_tuned(path, {mode: {**earlier.get(mode, {}), **tuned[mode]} for mode in MODES})
    return replace(protocol, tuned=tuned)


def _searched(needs: Sequence[Need]) -> list[Need]:
    """Return the models to search: the base of each variant, without models whose settings are all fixed."""
    tunable = [need for need in needs if not grid_of(MODELS[need[1]].policy).keys() <= MODELS[need[1]].fixed.keys()]
    return list(dict.fromkeys((mode, base_of(name)) for mode, name in tunable))


def _config(need: Need, protocol: Protocol, num_trials: int) -> SearchConfig:
    mode, name = need
    budget, model = protocol.budget, MODELS[name]

    def of_model(*layers: Settings) -> dict[str, object]:
        settings = {key: value for key, value in merge_changes(*layers).items() if key != "num_steps"}
        return {key: value for key, value in settings.items() if has_setting(mode, model.policy, key)}

    return SearchConfig(
        mode=mode,
        num_trials=num_trials,
        num_steps=budget.study_trial_steps if model.is_study else budget.trial_steps,
        changes=of_model(protocol.changes, model.fixed),
        start=of_model(
            protocol.tunable(need), {"warmup_steps": budget.warmup_steps, "ranker.first_steps": budget.ranker_steps}
        ),
        values=dict(model.values),
    )


def with_published_settings(protocol: Protocol, benchmark: Benchmark) -> Protocol:
    """Give GFN4Rec the settings that the paper reports, unless it was tuned here."""
    published = published_for(benchmark.data.name, benchmark.data.settings)
    if published is None:
        return protocol
    tuned: dict[Mode, dict[str, Settings]] = {
        mode: {"gfn": published.settings, **protocol.tuned.get(mode, {})} for mode in MODES
    }
    return replace(protocol, tuned=tuned)
