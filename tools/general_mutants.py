"""Print what cosmic-ray makes of some modules, a JSON object a line; run by tools/mutate.py in .venv/cosmic-ray.

Its own runner starts a new interpreter for each mutant and changes the files it is given; ours does neither.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Nobody could notice: `|` between types in annotations, which are never evaluated; `is` for `==` between words of an
# enum; `/` for `*` among parameters.
LEFT_OUT = re.compile(
    "ReplaceBinaryOperator_(BitOr_|Mul_Div)|ReplaceComparisonOperator_(Is_Eq|IsNot_NotEq|Eq_Is|NotEq_IsNot)$"
)


def mutants(path: Path) -> Iterator[dict[str, Any]]:
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.mutating import mutate_code

    source = path.read_text(encoding="utf-8")
    seen = {source}
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if kind.arguments() or LEFT_OUT.search(name):
            continue
        tree = get_ast_from_path(path)
        places = [
            place
            for node in ast_nodes(tree)
            for place in kind().mutation_positions(node)
        ]
        for number, (start, _) in enumerate(places):
            mutated = mutate_code(source, kind(), number)
            if mutated is not None and mutated not in seen and _is_python(mutated):
                seen.add(mutated)
                yield {
                    "file": str(path),
                    "line": start[0],
                    "operator": name,
                    "source": mutated,
                }


def _is_python(source: str) -> bool:
    """A lone `*` among parameters is no product, and cosmic-ray does not know that."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for mutant in mutants(Path(argument)):
            print(json.dumps(mutant))
