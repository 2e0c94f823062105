"""YAML as a careful reader takes it: a key that stands twice in a mapping is a fault, not the last one's win."""

from collections.abc import Hashable
from typing import Any

import yaml


class _Strict(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(None, None, f"twice in one mapping: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def documents_of(text: str) -> list[Any]:
    """The documents in `text`, empty ones left out. Raises yaml.YAMLError."""
    return [document for document in yaml.load_all(text, _Strict) if document]
