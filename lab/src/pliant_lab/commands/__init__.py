"""The commands that ``pliant`` has where this is installed: entry points of ``pliant.commands``."""

from pliant.cli.verbs import Family, Verb

REPRODUCE = Family(
    "Run the papers' experiments again, with figures.",
    {
        "scheduling": Verb(
            "pliant_lab.commands.reproduce:scheduling",
            "Simulate Finnerty et al. 2024, Iserte et al. 2018, and all policies on real traces.",
        ),
        "apgas": Verb(
            "pliant_lab.commands.reproduce_apgas:apgas",
            "Run the task programs of Finnerty et al. 2024 with real processes.",
        ),
        "dmr": Verb(
            "pliant_lab.commands.reproduce_dmr:dmr",
            "Run the experiments of Iserte et al. 2018 with real processes, and simulate their throughput.",
        ),
        "launch": Verb(
            "pliant_lab.commands.reproduce_launch:launch",
            "Launch an empty program over 1 to 128 nodes of a virtual cluster.",
        ),
        "spawning": Verb(
            "pliant_lab.commands.reproduce_spawning:spawning",
            "Run the resizes of Martín-Álvarez et al. 2025 on 1 to 8 virtual nodes.",
        ),
    },
)
BENCH = Family(
    "Measure Pliant on this machine.",
    {
        "simulator": Verb(
            "pliant_lab.commands.bench:simulator",
            "Simulate: jobs per CPU second, with records and every check of the core.",
        ),
        "batches": Verb(
            "pliant_lab.commands.bench_live:batches",
            "Run batches of real MPI jobs, malleable and under rigid EASY.",
        ),
        "leaks": Verb(
            "pliant_lab.commands.bench_live:leaks",
            "Count what many runs leave: processes, directories, shared memory.",
        ),
        "cycles": Verb(
            "pliant_lab.commands.bench_live:resize_cycles",
            "Grow and shrink one MPI job, and count what its processes keep.",
        ),
        "launch": Verb(
            "pliant_lab.commands.bench_launch:launch",
            "Launch empty programs on a virtual cluster: pliant, hydra, ssh, pdsh, clush.",
        ),
        "resize": Verb(
            "pliant_lab.commands.bench_resize:resize",
            "Resize MPI jobs, from each size to each other, in each way there is.",
        ),
        "agreement": Verb(
            "pliant_lab.commands.bench_agreement:agreement",
            "Run the demonstration's batch, simulate it, and compare.",
        ),
        "places": Verb(
            "pliant_lab.commands.bench_places:places",
            "Balance work over places that come, go and die, by seeds.",
        ),
        "world": Verb(
            "pliant_lab.commands.bench_world:world",
            "Run controller, agents and jobs under injected faults, by seeds.",
        ),
        "apgas": Verb(
            "pliant_lab.commands.bench_apgas:apgas",
            "Run task programs beside their bare kernels, over places and workers.",
        ),
        "scaling": Verb(
            "pliant_lab.commands.bench_scaling:scaling",
            "Run each task program over 1 and 2 places and workers, and resize it.",
        ),
        "redistribute": Verb(
            "pliant_lab.commands.bench_redistribute:redistribute", "Redistribute an array by each method."
        ),
    },
)
