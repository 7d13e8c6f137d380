# SPDX-License-Identifier: MIT
"""The named tuples that have the members of the library's structs. `_tuples.pyi`, which
tests/package/test_ctypes.py writes, lists them."""

from . import _c_api
from ._struct import tuple_type

DeviceInfo = tuple_type("DeviceInfo", "A device at this moment. Memory is in bytes.", _c_api.DeviceInfo,
                        types={"is_cuda": "bool"})
FileInfo = tuple_type("FileInfo", """\
What a file contains. A count that this kind of file does not have is -1. include/gpureplay/checkpoint.h describes
each.""", _c_api.CheckpointInfo)

# Buffers.
Stats = tuple_type("Stats", """\
Counts since creation, and seconds and bytes where the name says so. include/gpureplay/replay.h describes each.""",
                   _c_api.ReplayStats)
Plan = tuple_type("Plan", """\
What a buffer needs. frames (of layout "frames") is a number of frames, frame_reach is in frames, and all others are in
bytes. include/gpureplay/plan.h describes each.""", _c_api.ReplayPlan)
PriorityStats = tuple_type("PriorityStats", """\
Statistics of all priorities at one moment. include/gpureplay/priority.h describes each.""", _c_api.PriorityStats)
LaneStats = tuple_type("LaneStats", "Counts since creation. include/gpureplay/lanes.h describes each.",
                       _c_api.LaneStats)

# Learners and policies.
LearnerStats = tuple_type("LearnerStats", """\
Statistics as of the last finished launch. include/gpureplay/learner.h describes each.""", _c_api.LearnerStats,
                          without="policy_loss policy_gradient_norm policy_learning_rate temperature entropy")
_OF_ACTIONS = "actions refreshes missing_rows cache_bytes empty_refreshes"  # that learners of vectors do not have
_WITH_CRITICS = {"loss": "critic_loss", "mean_loss": "mean_critic_loss", "gradient_norm": "critic_gradient_norm",
                 "learning_rate": "critic_learning_rate", "policy_loss": "actor_loss",
                 "policy_gradient_norm": "actor_gradient_norm", "policy_learning_rate": "actor_learning_rate"}
DDPGStats = tuple_type("DDPGStats", """\
Statistics as of the last finished launch. include/gpureplay/learner.h describes each.""", _c_api.LearnerStats,
                       without=f"{_OF_ACTIONS} temperature entropy", renamed=_WITH_CRITICS)
SACStats = tuple_type("SACStats", """\
Statistics as of the last finished launch. include/gpureplay/learner.h describes each.""", _c_api.LearnerStats,
                      without=_OF_ACTIONS, renamed=_WITH_CRITICS)
ActorCriticLosses = tuple_type("ActorCriticLosses", """\
What a train step computed. include/gpureplay/actor_critic.h describes each.""", _c_api.ActorCriticLosses)
PolicyStats = tuple_type("PolicyStats", "Statistics. include/gpureplay/policy.h describes each.", _c_api.PolicyStats)

# Runs.
RunEvent = tuple_type("RunEvent", """\
An episode that has ended, an evaluation, numbers of threads that the tuner of GA3C has measured, or the beginning or
end of an actor of Ape-X, whose number env_index is (1024: the one that evaluates); kind is "episode", "evaluation",
"tuned", "started" or "ended". weights: of an evaluation. agent: the learner that the run trains.
include/gpureplay/run_handle.h describes the others.

    def on_event(event: gpureplay.RunEvent) -> None:
        if event.kind == "evaluation":
            print(event.env_steps, event.mean_return)
""", _c_api.RunEvent,
                      types={"kind": "str", "accepted": "bool", "weights": "_run.EvaluatedWeights | None",
                             "agent": "_learner.Learner"})
RunStats = tuple_type("RunStats", """\
Counts, and seconds where the name says so. include/gpureplay/run_handle.h describes each.""", _c_api.RunStats,
                      "fast_dqn")
GA3CStats = tuple_type("GA3CStats", """\
Counts, and seconds where the name says so. include/gpureplay/run_handle.h describes each.""", _c_api.RunStats, "ga3c")
ApexStats = tuple_type("ApexStats", """\
Counts, and seconds where the name says so. include/gpureplay/run_handle.h describes each.""", _c_api.RunStats, "apex")
