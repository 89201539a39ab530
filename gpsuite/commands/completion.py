"""`gpsuite completion`: words that a shell proposes at Tab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from gpsuite.commands import COMMANDS, MULTIRUN
from gpsuite.commands.bench import LARGE, PEERS
from gpsuite.commands.data import ACTIONS
from gpsuite.commands.guide import pages
from gpsuite.commands.list import KINDS
from gpsuite.commands.tables import show_json
from gpsuite.config.files import conf_dir, families_of_methods, group_choices, method_families, read_file
from gpsuite.config.grammar import FORMATS, with_experiment
from gpsuite.config.spelling import is_table, public_options
from gpsuite.config.typed import ON_ERROR, SCALES
from gpsuite.data.spec import CSV_OPTIONS
from gpsuite.errors import UserError, unknown

HELP = """
gpsuite completion bash|zsh|fish

Prints what the shell needs to complete commands, experiments, datasets, methods and settings:
  bash   echo 'source <(gpsuite completion bash)' >> ~/.bashrc
  zsh    echo 'source <(gpsuite completion zsh)' >> ~/.zshrc
  fish   gpsuite completion fish > ~/.config/fish/completions/gpsuite.fish
"""

# bash breaks words at '=': of each proposal the part before it is cut off
SCRIPTS = {
    "bash": """\
_gpsuite() {
  local line=${COMP_LINE:0:COMP_POINT}
  local word=${line##* }
  mapfile -t COMPREPLY < <(gpsuite completion words "$line" 2>/dev/null)
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _gpsuite gpsuite
""",
    "zsh": """\
_gpsuite() {
  local -a found
  found=(${(f)"$(gpsuite completion words "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)"})
  if (( $#found )); then
    compadd -Q -S '' -a found
  else
    compset -P '*='
    _files
  fi
}
if (( ! $+functions[compdef] )); then autoload -Uz compinit && compinit; fi
compdef _gpsuite gpsuite
""",
    "fish": """\
complete -c gpsuite -a '(gpsuite completion words (commandline -cp | string collect) 2>/dev/null)'
""",
}

FLAGS = ("force", "wait", "debug", "dataset.strict")
CHOICES = {"scale": SCALES, "format": FORMATS, "on_error": ON_ERROR, **dict.fromkeys(FLAGS, ("true", "false"))}
OF_EXPERIMENTS = ("status", "compare", "publish", "recheck")


def main(words: list[str]) -> int:
    """Print a shell's script, or what that script requests: the proposals for an unfinished line."""
    if words[:1] == ["words"] and len(words) == 2:
        for each in proposals(words[1]):  # without any the shell completes files
            print(each)
        return 0
    as_json = words[-1:] == ["format=json"]
    words = words[:-1] if as_json else words
    if len(words) != 1:
        raise UserError(f"completion: name one shell\nvalid: {', '.join(SCRIPTS)}")
    if words[0] not in SCRIPTS:
        raise unknown(f"{words[0]}: unknown shell", words[0], list(SCRIPTS))
    if as_json:
        show_json({"shell": words[0], "script": SCRIPTS[words[0]]})
    else:
        print(SCRIPTS[words[0]], end="")
    return 0


def proposals(line: str) -> list[str]:
    """Return the words that may complete the last word of a command line, or follow it."""
    words = line.split()
    last = words.pop() if words and not line[-1].isspace() else ""
    found = [word for word in _candidates(words[1:], last) if word.startswith(last)]
    return sorted(dict.fromkeys(found)) if last else list(dict.fromkeys(found))


def _candidates(words: Sequence[str], last: str) -> Iterator[str]:
    groups = group_choices()
    command = words[0] if words else ""
    if command in ("run", "show"):
        yield from _settings(words[1:], last.partition("=")[0] if "=" in last else "")
        if "=" not in last and not any(word.startswith("experiment=") for word in with_experiment(words[1:])):
            yield from groups["experiment"]
    elif not command:
        yield from (*COMMANDS, "--help", "--version", "-V")
    elif command in OF_EXPERIMENTS:
        yield from groups["experiment"]
    elif command == "list":
        yield from KINDS
        for group in ("experiment", "dataset", "method"):
            yield from groups[group]
    elif command == "data" and len(words) == 1:
        yield from ACTIONS
    elif command == "data":
        yield from groups["dataset"] if words[1] in ("fetch", "verify") else ()
    elif command == "guide":
        yield from (page.name for page in pages())
    elif command == "bench":
        yield from {name.split("/")[0]: None for name in groups["experiment"] if "/" in name}
        yield from (PEERS, LARGE)
    elif command == "completion":
        yield from SCRIPTS


def _settings(words: Sequence[str], key: str) -> Iterator[str]:
    """Yield the keys of the experiment that the words name, or the values of a key."""
    given = dict(word.split("=", 1) for word in with_experiment(words) if "=" in word)
    groups, name = group_choices(), given.get("experiment", "")
    groups = {**groups, "kernel": groups["model"]}
    if key:
        values: Sequence[str] = CHOICES.get(key, groups.get(key, ()))
        if key == "method" and name in groups["experiment"]:
            families = families_of_methods(name)
            values = [method for method, of in method_families().items() if of in families]
        yield from (f"{key}={value}" for value in values)
        return
    keys = [] if name else ["experiment"]
    if name in groups["experiment"]:
        own = read_file("experiment", name)
        keys += [each for each in public_options(name, own) if each not in ("defaults", "meta", "scales")]
        keys += ["method"] if "methods" in own else []
        keys += ["kernel"] if any("/model" in str(each) for each in own.get("defaults", ())) else []
    keys += ["dataset", *yaml.safe_load((conf_dir() / "config.yaml").read_text(encoding="utf-8"))]
    keys += ["budget.seconds", "parallel.workers", "parallel.address"]
    if given.get("dataset") == "csv" or is_table(given.get("dataset", "")):
        keys += [f"dataset.{option}" for option in CSV_OPTIONS]
    yield from (f"{each}=" for each in keys if each not in (*given, "defaults", "budget"))
    yield from (*MULTIRUN, "--help")
