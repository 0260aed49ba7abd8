# SPDX-License-Identifier: Apache-2.0
from ._buffer import Buffer, Config, topk_idx_t
from ._event import EventHandle, EventOverlap
