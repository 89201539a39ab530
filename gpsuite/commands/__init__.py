"""One module per command of the command line: `main(words) -> exit code` and `HELP`."""

from __future__ import annotations

MULTIRUN = ("-m", "--multirun")  # a run for every value of a list

# command -> what --help says. Each is gpsuite.commands.<command>.main(words) -> exit code
COMMANDS = {
    "certify": "guarantees for your own table: gpsuite certify FILE [TARGET] [key=value ...]",
    "run": "run an experiment: gpsuite run <family>/<name> [scale=smoke|quick|paper] [key=value ...]",
    "show": "settings and tasks of a run, without running it: gpsuite show <family>/<name> [key=value ...]",
    "list": "what there is: gpsuite list [experiments|datasets|methods|NAME]",
    "status": "tasks done, failed, missing: gpsuite status [experiment ...]",
    "compare": "the paper's value | ours | n | difference | verdict: gpsuite compare [experiment ...]",
    "report": "one self-contained HTML page over all results: gpsuite report",
    "publish": "copy results to results/published: gpsuite publish experiment ...",
    "recheck": "recompute a random sample of published records: gpsuite recheck [experiment ...] sample=5 seed=0",
    "data": "datasets: gpsuite data list|fetch|verify|describe [name or file ...]",
    "predict": "predictions for new rows by the model of a run: gpsuite predict RUN FILE.csv [output=FILE]",
    "verify": "independent check of a certificate: gpsuite verify CERTIFICATE [dataset=NAME]",
    "guide": "the guide, page by page, without network: gpsuite guide [PAGE]",
    "bench": "ratios against baselines and the LAPACK/BLAS floor: gpsuite bench [family]",
    "doctor": "versions, threads, data found, plug-ins, free disk, backends: gpsuite doctor",
    "completion": "shell completion: gpsuite completion bash|zsh|fish",
}
