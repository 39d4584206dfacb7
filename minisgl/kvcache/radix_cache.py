"""The prefix cache that keeps token sequences in a radix tree: equal prefixes are kept once.

The idea is RadixAttention of SGLang (Zheng et al., 2024).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from minisgl.core import get_global_ctx
from minisgl.utils import align_down

from .base import BaseCacheHandle, BasePrefixCache, InsertResult, MatchResult, SizeInfo
from .radix_check import check

TOKEN_BYTES = 4
"""Bytes of a token in a key, which holds tokens as int32."""


class RadixTreeNode:
    """A run of tokens below its parent's, and the slots that hold their K and V; whole pages.

    children: by the bytes of their first page, in which they all differ. ref_count: the locks on
    this node or on one below it. timestamp: the cache's tick when the node was last used.
    """

    def __init__(self, page_size: int, tic: int) -> None:
        self.page_bytes = page_size * TOKEN_BYTES
        self.children: dict[bytes, RadixTreeNode] = {}
        self.ref_count = 0
        self.timestamp = tic
        self._parent: RadixTreeNode | None = None

    def set_key_value(self, key: bytes, value: torch.Tensor) -> None:
        """Give the node its tokens and their slots; value: (length,), owned by the node."""
        assert len(key) == len(value) * TOKEN_BYTES, "a node needs one slot a token"
        self.key = key
        self._value = value

    def set_parent(self, parent: RadixTreeNode) -> None:
        """Hang the node below parent, in the place of the child with the same first page if any."""
        self._parent = parent
        parent.children[self.first_page] = self

    @property
    def first_page(self) -> bytes:
        """The part of the key by which the parent finds this node."""
        return self.key[: self.page_bytes]

    @property
    def length(self) -> int:
        """Tokens of this node alone."""
        return len(self.key) // TOKEN_BYTES

    @property
    def parent(self) -> RadixTreeNode:
        """The node whose tokens come before this one's; the root has none."""
        assert self._parent is not None, "the root has no parent"
        return self._parent

    @property
    def value(self) -> torch.Tensor:
        """The slots of this node's tokens: (length,)."""
        return self._value

    def is_root(self) -> bool:
        """Whether this is the node of no tokens, with which every sequence starts."""
        return self._parent is None

    def is_leaf(self) -> bool:
        """Whether no cached sequence goes on after this node."""
        return not self.children

    def path(self) -> Iterator[RadixTreeNode]:
        """Go from this node up to the root, which is left out."""
        node = self
        while node._parent is not None:
            yield node
            node = node._parent

    def get_match_len(self, data: bytes, offset: int) -> int:
        """Return how many tokens, in whole pages, the key shares with data from byte offset on."""

        def differs_in(page: int) -> bool:
            return not data.startswith(self.key[: (page + 1) * self.page_bytes], offset)

        pages = bisect_left(range(len(self.key) // self.page_bytes), True, key=differs_in)
        return pages * self.page_bytes // TOKEN_BYTES

    def split_at(self, pos: int) -> RadixTreeNode:
        """Move the first pos tokens to a new node between the parent and this one; return it.

        Locks on this node are locks on both; whoever holds this node holds the same tokens still.
        """
        assert 0 < pos < self.length, f"a node of {self.length} tokens can't be split at {pos}"
        cut, value = pos * TOKEN_BYTES, self.value
        prefix = RadixTreeNode(self.page_bytes // TOKEN_BYTES, self.timestamp)
        prefix.ref_count = self.ref_count
        # Views would keep all of the old tensor alive until both parts are gone.
        prefix.set_key_value(self.key[:cut], value[:pos].clone())
        prefix.set_parent(self.parent)
        self.set_key_value(self.key[cut:], value[pos:].clone())
        self.set_parent(prefix)
        return prefix

    def __repr__(self) -> str:
        return f"the node with slots {self.value.tolist()}"


@dataclass(frozen=True)
class RadixCacheHandle(BaseCacheHandle):
    """A hold on the tokens from the root up to the end of node.

    A later split of node leaves it valid: node is the last part then.
    """

    node: RadixTreeNode

    def get_matched_indices(self) -> torch.Tensor:
        if self.node.is_root():
            return self.node.value
        return torch.cat([node.value for node in self.node.path()][::-1])


class RadixPrefixCache(BasePrefixCache):
    """A radix tree of token sequences, and the order in which its unlocked nodes were last used.

    order: the longest unused node first, and every node before its parent, so that the first one
    is always a leaf. tick counts the uses.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.page_size = get_global_ctx().page_size
        self.tick = 0
        self.order: OrderedDict[RadixTreeNode, None] = OrderedDict()
        self.root_node = RadixTreeNode(self.page_size, self.tick)
        self.root_node.set_key_value(b"", torch.empty(0, dtype=torch.int32, device=device))
        self.evictable_size = 0
        self.protected_size = 0

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        """Lock, or unlock, the handle's node and those above it; the root needs no lock.

        Raises RuntimeError, and changes nothing, when what to lock is no longer cached or what to
        unlock isn't locked.
        """
        assert isinstance(handle, RadixCacheHandle), "the handle is another kind of cache's"
        if handle.node.is_root():
            return
        if unlock:
            self._unlock(handle.node)
        else:
            self._lock(handle.node)

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        node, cached_len = self._tree_walk(self._whole_pages(input_ids))
        self._touch(node)
        return MatchResult(RadixCacheHandle(cached_len, node))

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        assert len(input_ids) == len(indices), (
            f"{len(input_ids)} tokens to insert, but {len(indices)} slots; give one slot a token"
        )
        data = self._whole_pages(input_ids)
        node, cached_len = self._tree_walk(data)
        total = len(data) // TOKEN_BYTES
        if cached_len < total:
            parent, node = node, RadixTreeNode(self.page_size, self.tick)
            # A row of the page table is the next request's soon: the slots are copied.
            node.set_key_value(data[cached_len * TOKEN_BYTES :], indices[cached_len:total].clone())
            node.set_parent(parent)
            self.evictable_size += node.length
        self._touch(node)
        return InsertResult(cached_len, RadixCacheHandle(total, node))

    def evict(self, size: int) -> torch.Tensor:
        """Drop the longest unused leaves, each as a whole, until at least size tokens are gone.

        Returns their slots. The time depends on the nodes dropped, not on those that stay.
        Raises RuntimeError when fewer tokens are evictable; nothing is dropped then.
        """
        if size > self.evictable_size:
            raise RuntimeError(
                f"{size} tokens to evict, but only {self.evictable_size} of the cache's "
                f"{self.size_info.total_size} are evictable"
            )
        values, left = [self.root_node.value], self.evictable_size - size
        while self.evictable_size > left:
            node, _ = self.order.popitem(last=False)
            assert node.is_leaf(), f"{node} is older than a node below it"
            del node.parent.children[node.first_page]
            self.evictable_size -= node.length
            values.append(node.value)
        return torch.cat(values)

    def reset(self) -> None:
        """Forget everything; raises RuntimeError while something is locked."""
        if self.protected_size > 0:
            raise RuntimeError(f"{self.protected_size} tokens are locked; unlock before a reset")
        self.root_node.children.clear()
        self.order.clear()
        self.evictable_size = 0

    @property
    def size_info(self) -> SizeInfo:
        return SizeInfo(self.evictable_size, self.protected_size)

    def all_indices(self) -> torch.Tensor:
        return torch.cat([node.value for node in self.nodes()])

    def check_integrity(self) -> None:
        check(self)

    def nodes(self) -> Iterator[RadixTreeNode]:
        """Go through the whole tree, the root first and each node before its children."""
        waiting = [self.root_node]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()

    def _whole_pages(self, input_ids: torch.Tensor) -> bytes:
        """Return the tokens as a key, without a last part that fills no page."""
        length = align_down(len(input_ids), self.page_size)
        return input_ids[:length].to(torch.int32).numpy().tobytes()

    def _tree_walk(self, data: bytes) -> tuple[RadixTreeNode, int]:
        """Return the node with which the longest cached prefix of data ends, and its tokens.

        A node that goes on otherwise is split. The caller touches the node.
        """
        node, offset = self.root_node, 0
        while child := node.children.get(data[offset : offset + node.page_bytes]):
            if not data.startswith(child.key, offset):
                child = child.split_at(child.get_match_len(data, offset))
            node, offset = child, offset + len(child.key)
        return node, offset // TOKEN_BYTES

    def _touch(self, node: RadixTreeNode) -> None:
        """Make node and those above it the last used ones, the deepest first."""
        self.tick += 1
        for used in node.path():
            used.timestamp = self.tick
            if used.ref_count == 0:
                self.order[used] = None
                self.order.move_to_end(used)

    def _lock(self, node: RadixTreeNode) -> None:
        if node.ref_count == 0 and node not in self.order:
            raise RuntimeError("the handle's tokens are no longer cached; match again, then lock")
        for held in node.path():
            if held.ref_count == 0:
                del self.order[held]
                self.evictable_size -= held.length
                self.protected_size += held.length
            held.ref_count += 1

    def _unlock(self, node: RadixTreeNode) -> None:
        if node.ref_count == 0:
            raise RuntimeError("the handle isn't locked; unlock it once for each lock")
        for held in node.path():
            held.ref_count -= 1
            if held.ref_count == 0:
                self.evictable_size += held.length
                self.protected_size -= held.length
        self._touch(node)
