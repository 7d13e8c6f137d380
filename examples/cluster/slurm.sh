#!/bin/bash
# SPDX-License-Identifier: MIT
# Ape-X on the nodes of a Slurm job, by Ray: sbatch examples/cluster/slurm.sh. Not run: written by the manuals of Slurm
# and of Ray 2.60. One task a node; the first node has the learner.
#SBATCH --job-name=apex
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gres=gpu:1
#SBATCH --no-requeue # a second run would find --out there; with --resume FOLDER in its place it goes on
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.ray/auth_token RAY_USAGE_STATS_ENABLED=0
[ -f "$RAY_AUTH_TOKEN_PATH" ] || ray get-auth-token --generate >/dev/null
srun --nodes="$SLURM_JOB_NUM_NODES" ray symmetric-run --address "$(scontrol show hostnames | head -n 1):6379" \
    --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus 1 -- \
    python -m gpureplay.train --engine ray --env build/atari/atari.so:Pong --preset apex-dqn --actors 240 \
    --out "$HOME/runs/pong"
