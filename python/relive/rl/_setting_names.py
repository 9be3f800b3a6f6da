"""Errors for settings that do not exist, which name the settings that may be meant."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Meaning(NamedTuple):
    """A setting under the names that it has in agents and experience here, and in other libraries."""

    here: tuple[str, ...]
    elsewhere: tuple[str, ...]
    note: str = ""
    """How to convert the value, if it is not the same."""


# The names of Acme, CleanRL and Stable-Baselines3, of which docs/agents.md has a table. If a name has several meanings,
# the first meaning counts for which the agent has a setting.
MEANINGS = (
    _Meaning(("discount",), ("gamma",)),
    _Meaning(("learning_rate", "policy_learning_rate"), ("lr", "policy_lr", "actor_lr", "policy_learning_rate")),
    _Meaning(("critic_learning_rate", "learning_rate"), ("q_lr", "critic_lr", "critic_learning_rate")),
    _Meaning(("min_replay_size", "min_size"), ("learning_starts",)),
    _Meaning(("max_replay_size", "max_size"), ("buffer_size", "capacity")),
    _Meaning(
        ("samples_per_insert",), ("train_freq", "train_frequency", "gradient_steps", "utd_ratio"),
        "batch_size * gradient_steps / train_freq",
    ),
    _Meaning(("target_update_period",), ("target_update_interval", "target_network_frequency"), "counted in learner steps"),
    _Meaning(("tau",), ("polyak",)),
    _Meaning(("num_steps", "steps", "sequence_length"), ("n_steps",)),
    _Meaning(("n_step",), ("n_steps", "multi_step")),
    _Meaning(("length", "trace_length"), ("sequence_length", "seq_len")),
    _Meaning(("period", "replay_period"), ("sequence_period",)),
    _Meaning(("num_envs", "environments"), ("n_envs",)),
    _Meaning(("minibatch_size",), ("batch_size",)),
    _Meaning(("minibatch_size",), ("num_minibatches",), "num_envs * num_steps / num_minibatches"),
    _Meaning(("epochs",), ("n_epochs", "update_epochs", "num_epochs")),
    _Meaning(("gae_lambda", "trace_decay"), ("lam", "lambda_")),
    _Meaning(("clip",), ("clip_range", "clip_coef", "clip_epsilon", "clip_param")),
    _Meaning(("value_cost",), ("vf_coef", "value_loss_coef")),
    _Meaning(("entropy_cost",), ("ent_coef", "entropy_coef")),
    _Meaning(("initial_temperature",), ("ent_coef", "alpha", "init_temperature"), "the initial value; the temperature is learned"),
    _Meaning(("max_gradient_norm",), ("max_grad_norm", "grad_clip")),
    _Meaning(("normalize_advantages",), ("normalize_advantage", "norm_adv")),
    _Meaning(("anneal",), ("anneal_lr",)),
    _Meaning(("anneal_steps",), ("anneal", "anneal_lr"), "the number of steps of the run"),
    _Meaning(("epsilon",), ("exploration_final_eps", "end_e", "final_epsilon")),
    _Meaning(("epsilon_decay_steps",), ("exploration_fraction",), "exploration_fraction * the number of steps of the run"),
    _Meaning(("priority_exponent",), ("alpha", "per_alpha", "prioritized_replay_alpha")),
    _Meaning(("importance_sampling_exponent", "importance_exponent"), ("beta", "per_beta", "prioritized_replay_beta")),
    _Meaning(("huber_loss_parameter", "huber"), ()),
    _Meaning(("duelling",), ("dueling",)),
    _Meaning(("atoms",), ("n_atoms", "num_atoms", "n_quantiles")),
    _Meaning(("value_range",), ("v_min", "v_max"), "(v_min, v_max)"),
    _Meaning(("policy_period",), ("policy_delay", "policy_frequency")),
    _Meaning(("target_noise",), ("target_policy_noise", "policy_noise")),
    _Meaning(("target_noise_clip",), ("noise_clip",)),
    _Meaning(("noise",), ("exploration_noise", "action_noise")),
    _Meaning(("conservatism",), ("cql_alpha", "alpha")),
    _Meaning(("hidden",), ("net_arch", "policy_kwargs", "hidden_sizes", "hidden_dims"), "the sizes of the hidden layers"),
)  # fmt: skip

# The options of a run under the names of their counterparts in other libraries.
_OPTIONS = {
    "total_timesteps": "steps", "tensorboard_log": "loggers", "verbose": "progress", "progress_bar": "progress", "callback": "on_step",
}  # fmt: skip


def expect_known(
    who: str,
    given: Iterable[str],
    known: Collection[str],
    *,
    more: Collection[str] = (),
    of_more: str = "",
    error: type[Exception] = TypeError,
) -> None:
    """Checks the names of settings.

    Args:
      who: the class that the user has called.
      given: the names.
      known: the names of the settings that exist.
      more: further settings that only the class ``of_more`` has.
      error: the exception to raise.

    Raises:
      Exception: a setting does not exist; the error names the settings that may be meant.
    """
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    hints = {name: _hint(name, known) or (f"{of_more} has it" if name in more else "") for name in unknown}
    told = ", ".join(f"{name!r} ({hint})" if hint else repr(name) for name, hint in hints.items())
    # A setting that another name means needs no list.
    is_clear = all(hint and not hint.endswith("?") for hint in hints.values())
    raise error(f"{who} has no setting {told}" + ("" if is_clear else f"; its settings are {', '.join(known)}"))


def expect_options(agent: str, given: Iterable[str], settings: Collection[str]) -> None:
    """Checks the names of the options that ``train`` passes on to ``run``.

    Args:
      agent: the class of the agent.
      given: the names.
      settings: the names of the agent's settings.

    Raises:
      TypeError: an option does not exist; the error names the options or settings that may be meant.
    """
    from relive.rl._run_options import RunOptions

    known = RunOptions.__annotations__
    hints = {name: _hint_for_option(agent, name, known, settings) for name in given if name not in known}
    if hints:
        told = ", ".join(f"{name!r} ({hint})" if hint else repr(name) for name, hint in hints.items())
        is_clear = all(hint and not hint.endswith("?") for hint in hints.values())
        rest = "" if is_clear else f"; besides the environment, its arguments are {', '.join(known)}"
        raise TypeError(f"train() has no argument {told}{rest}")


def _hint_for_option(agent: str, name: str, known: Collection[str], settings: Collection[str]) -> str:
    if name in _OPTIONS:
        return f"use {_OPTIONS[name]}"
    setting = name if name in settings else next(iter(_meant(name, settings)), ("", ""))[0]
    return f"it is a setting: {agent}({setting}=…)" if setting else _alike(name, known)


def names_checked(kind: type[T], *, like: type[Any] | None = None, of_like: str = "") -> type[T]:
    """Makes the constructor of a dataclass report unknown settings in the same way as :func:`expect_known`.

    Args:
      kind: the class.
      like: a class with further settings, which belong to the class ``of_like``.
    """
    init, known = kind.__init__, names_of(kind)
    more = () if like is None else names_of(like)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **settings: Any) -> None:
        expect_known(type(self).__name__, settings, known, more=more, of_more=of_like)
        init(self, *args, **settings)

    setattr(kind, "__init__", checked)
    return kind


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """Returns the names of a dataclass's fields."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _hint(name: str, known: Collection[str]) -> str:
    from relive.rl._run_options import RunOptions

    if (option := _OPTIONS.get(name, name)) in RunOptions.__annotations__:
        return f"{option}= is an argument of train() and run()"
    for setting, note in _meant(name, known):
        return f"use {setting}" + (f": {note}" if note else "")
    return _alike(name, known)


def _meant(name: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields the known settings that a name may mean, each with how to convert the value."""
    for meaning in MEANINGS:
        found = [here for here in meaning.here if here in known and name in (*meaning.here, *meaning.elsewhere)]
        if found:
            yield found[0], "" if name in meaning.here else meaning.note


def _alike(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=2)
    return f"did you mean {' or '.join(close)}?" if close else ""
