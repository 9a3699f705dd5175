"""GFN4Rec in one file: data, simulated users, policy, online learning (Algorithm 1 of the paper), evaluation.

    python examples/online_loop.py

It uses the embedded data set `synthetic-small`, writes to `build/example`, and takes about a minute.
"""

from pathlib import Path

import torch

from gfn4rec import (
    Catalogue,
    EnvironmentConfig,
    OnlineLearner,
    OnlineLearnerConfig,
    Policy,
    PrepareConfig,
    Query,
    Recommender,
    Sampling,
    SlateData,
    UserEnvironment,
    build_policy,
    prepare,
    read_data,
    train_simulator,
)

GREEDY = Sampling(greedy=True)


def evaluate(policy: Policy, environment: UserEnvironment, sampling: Sampling, num_batches: int = 10) -> float:
    """Return the mean expected reward of the slates that a policy shows to new users."""
    request, generator = environment.reset(seed=1), torch.Generator().manual_seed(1)
    rewards = []
    for _ in range(num_batches):
        feedback = environment.step(policy.recommend(request, generator, sampling).slate_BK)
        rewards.append(float(feedback.expected_reward_B.mean()))
        request = feedback.next_request
    return sum(rewards) / num_batches


def main(directory: Path, data_set: str = "synthetic-small", num_steps: int = 300, warmup_steps: int = 20) -> float:
    """Train GFN4Rec online; return the reward of its greedy slates divided by that of random slates."""
    # A log, cut into slates. `Interactions.from_frame` takes a DataFrame of your own instead of `read_data`.
    prepare(read_data(data_set), PrepareConfig(), directory / "data")
    data = SlateData.open(directory / "data")

    # Users who respond to slates as those of the log would.
    users = train_simulator(data, directory / "simulator", num_epochs=2)
    config = EnvironmentConfig(num_users=64, slate_size=data.slate_size, rho=data.manifest.rho)
    environment, others = (UserEnvironment(data, users, config, seed) for seed in (0, 1))

    # The policy, and what learns its weights. The cosine schedule needs the number of learning steps.
    policy = build_policy("gfn-energy", Catalogue.of(data))
    learning = OnlineLearnerConfig(learning_batch=256, newest_share=0.125, learning_rate=2e-3, schedule="cosine")
    learner = OnlineLearner(policy, learning, num_steps=num_steps - warmup_steps)

    # Algorithm 1: show slates, observe the responses, learn from them.
    generator, request = torch.Generator().manual_seed(0), environment.request
    for step in range(num_steps):
        proposal = policy.recommend(request, generator)
        feedback = environment.step(proposal.slate_BK)
        learner.observe(request, proposal.slate_BK, feedback.response_BKR)
        if step >= warmup_steps:
            metrics = learner.learn()
            if step % 50 == 0:
                print(f"step {step}: reward {feedback.reward_B.mean():.3f}, loss {metrics['loss']:.3f}")
        request = feedback.next_request

    # What it has learned: greedy slates, slates as diverse as learned, and random ones.
    random = evaluate(build_policy("random", Catalogue.of(data)), others, Sampling())
    greedy, sampled = evaluate(policy, others, GREEDY), evaluate(policy, others, Sampling())
    print(f"expected reward: greedy {greedy:.3f}, sampled {sampled:.3f}, random {random:.3f}")
    query = Query(user=str(data.users["id"][0]))
    for answer in Recommender(policy, data, others).recommend([query], num_slates=2, sampling=Sampling(greediness=0.5)):
        for slate in answer.slates:
            print([item.title for item in slate.items], f"expected reward {slate.expected_reward:.3f}")
    return greedy / random


if __name__ == "__main__":
    main(Path("build/example"))
