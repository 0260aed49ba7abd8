# SPDX-License-Identifier: Apache-2.0
"""Functions, structures and constants of Weft's headers. Written by
tools/python_bindings.py; do not edit."""

from ctypes import (
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)


class weft_unique_id(Structure):
    _fields_ = [
        ("bytes", c_ubyte * 128),
    ]


class weft_init_attr(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("thread", c_int),
        ("heap_bytes", c_size_t),
        ("flags", c_uint),
        ("group", c_void_p),
        ("group_pe", c_int),
        ("unique_id", c_void_p),
        ("unique_id_pe", c_int),
        ("unique_id_npes", c_int),
        ("wait_limit_ns", c_uint64),
        ("teams", c_int),
    ]


class weft_path_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("load_store", c_int),
        ("proven", c_int),
        ("reason", c_char * 256),
        ("operations", c_uint64),
        ("bytes", c_uint64),
        ("kind", c_int),
    ]


class weft_gpu_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("ordinal", c_int),
        ("name", c_char * 96),
        ("uuid", c_char * 48),
        ("bus_id", c_char * 20),
        ("why", c_char * 160),
        ("kernels", c_char * 32),
        ("heap_window", c_size_t),
        ("heap_backed", c_size_t),
        ("heap_used", c_size_t),
        ("processors", c_int),
    ]


class weft_gpu_pair(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("usable", c_int),
        ("bus_id", c_char * 20),
        ("evidence", c_char * 256),
    ]


class weft_map_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("works", c_int),
        ("way", c_char * 64),
        ("why", c_char * 1024),
        ("by", c_char * 16),
        ("to_from_plain", c_size_t),
        ("to_from_pinned", c_size_t),
        ("from_to_plain", c_size_t),
        ("from_to_pinned", c_size_t),
        ("threads", c_int),
        ("to_by_threads", c_size_t),
        ("from_by_threads", c_size_t),
    ]


class weft_file_result(Structure):
    _fields_ = [
        ("status", c_int),
        ("error", c_int),
        ("done", c_uint64),
        ("crc32c", c_uint32),
        ("reserved", c_uint32),
    ]


class weft_file_attr(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("mode", c_uint),
        ("depth", c_uint),
        ("chunk_bytes", c_size_t),
    ]


class weft_file_part(Structure):
    _fields_ = [
        ("address", c_void_p),
        ("bytes", c_size_t),
        ("offset", c_uint64),
        ("pe", c_int),
        ("result", c_void_p),
    ]


class weft_file_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char_p),
        ("alignment", c_uint32),
        ("memory_alignment", c_uint32),
        ("depth", c_uint32),
        ("chunk_bytes", c_uint64),
        ("file_system", c_char * 32),
        ("store", c_char * 64),
        ("reason_code", c_char * 32),
        ("reason", c_char * 256),
        ("gpu_backend", c_char_p),
        ("gpu_reason_code", c_char * 32),
        ("gpu_reason", c_char * 256),
    ]


class weft_experts_attr(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tokens", c_uint32),
        ("hidden", c_uint32),
        ("experts", c_uint32),
        ("top", c_uint32),
        ("rows", c_uint32),
        ("scales", c_uint32),
        ("type", c_int),
        ("result_type", c_int),
        ("node_members", c_uint32),
        ("sms", c_uint32),
    ]


class weft_experts_size(Structure):
    _fields_ = [
        ("symmetric", c_size_t),
        ("layout", c_size_t),
        ("relays", c_int),
    ]


class weft_experts_tokens(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tokens", c_uint32),
        ("known", c_int),
        ("x", c_void_p),
        ("scales", c_void_p),
        ("topk_idx", c_void_p),
        ("topk_weights", c_void_p),
    ]


class weft_experts_rows(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("x", c_void_p),
        ("scales", c_void_p),
        ("topk_idx", c_void_p),
        ("topk_weights", c_void_p),
        ("n_rows", c_void_p),
        ("n_tokens", c_void_p),
    ]


class weft_message(Structure):
    _fields_ = [
        ("address", c_void_p),
        ("bytes", c_size_t),
        ("member", c_int),
        ("receives", c_int),
    ]


# enum weft_type
WEFT_INT8 = 0
WEFT_INT16 = 1
WEFT_INT32 = 2
WEFT_INT64 = 3
WEFT_UINT8 = 4
WEFT_UINT16 = 5
WEFT_UINT32 = 6
WEFT_UINT64 = 7
WEFT_FLOAT = 8
WEFT_DOUBLE = 9
WEFT_LONG_DOUBLE = 10
WEFT_COMPLEX_FLOAT = 11
WEFT_COMPLEX_DOUBLE = 12
WEFT_TYPE_COUNT = 13
WEFT_HALF = 100
WEFT_BFLOAT16 = 101
WEFT_FP8_E4M3 = 102
WEFT_FP8_E5M2 = 103
WEFT_NARROW_FACTOR = 256

# enum weft_op
WEFT_AND = 0
WEFT_OR = 1
WEFT_XOR = 2
WEFT_MIN = 3
WEFT_MAX = 4
WEFT_SUM = 5
WEFT_PROD = 6
WEFT_AVG = 7
WEFT_OP_COUNT = 8

# enum weft_cmp
WEFT_EQ = 0
WEFT_NE = 1
WEFT_GT = 2
WEFT_LE = 3
WEFT_LT = 4
WEFT_GE = 5
WEFT_CMP_COUNT = 6

# enum weft_signal_op
WEFT_SIGNAL_SET = 0
WEFT_SIGNAL_ADD = 1

# enum weft_kind
WEFT_HOST = 0
WEFT_GPU = 1

# enum weft_amo
WEFT_AMO_SET = 0
WEFT_AMO_ADD = 1
WEFT_AMO_AND = 2
WEFT_AMO_OR = 3
WEFT_AMO_XOR = 4
WEFT_AMO_FETCH = 5
WEFT_AMO_SWAP = 6
WEFT_AMO_CSWAP = 7
WEFT_AMO_FETCH_ADD = 8
WEFT_AMO_FETCH_AND = 9
WEFT_AMO_FETCH_OR = 10
WEFT_AMO_FETCH_XOR = 11
WEFT_AMO_COUNT = 12

# enum weft_thread
WEFT_THREAD_SINGLE = 0
WEFT_THREAD_FUNNELED = 1
WEFT_THREAD_SERIALIZED = 2
WEFT_THREAD_MULTIPLE = 3

# enum weft_target
WEFT_SIMT = 0
WEFT_CUDA = 1

# enum weft_queue_mode
WEFT_QUEUES_SHARED = 0
WEFT_QUEUES_EXCLUSIVE = 1
WEFT_QUEUES_SINGLE = 2
# Macros with a number
WEFT_ALLOC_ZERO = 1
WEFT_CTX_NOSTORE = 4
WEFT_CTX_PRIVATE = 2
WEFT_CTX_SERIALIZED = 1
WEFT_FILE_BUFFERED = 64
WEFT_FILE_CHECKSUM = 32
WEFT_FILE_CREATE = 4
WEFT_FILE_EXCLUSIVE = 8
WEFT_FILE_READ = 1
WEFT_FILE_TRUNCATE = 16
WEFT_FILE_WRITE = 2
WEFT_INIT_GLOBAL_DATA = 1
WEFT_VERSION = 2000
WEFT_VERSION_MAJOR = 0
WEFT_VERSION_MINOR = 2
WEFT_VERSION_PATCH = 0

# Version of the device state
WEFT_DEV_VERSION = 20

# name: (value, meaning)
STATUSES = {
    "WEFT_OK": (0, "success"),
    "WEFT_ERR_ARGUMENT": (-1, "an argument is null or out of its range"),
    "WEFT_ERR_PE": (-2, "no such PE in this job, team or context"),
    "WEFT_ERR_ADDRESS": (-3, "the address is not in a symmetric segment"),
    "WEFT_ERR_RANGE": (-4, "the transfer runs past the end of its segment"),
    "WEFT_ERR_TYPE": (-5, "the type is unknown or not valid for this operation"),
    "WEFT_ERR_OP": (-6, "the operation or comparison is unknown"),
    "WEFT_ERR_CONFIG": (-7, "a configuration variable is unknown or has a bad value"),
    "WEFT_ERR_NO_MEMORY": (-8, "the symmetric heap or the system has no memory of that size left"),
    "WEFT_ERR_SYSTEM": (-9, "the operating system refused a call"),
    "WEFT_ERR_MISMATCH": (-10, "the PEs called a collective function with different arguments"),
    "WEFT_ERR_UNSUPPORTED": (-11, "not supported here"),
    "WEFT_ERR_FREE": (-12, "not the start of an allocated block"),
    "WEFT_ERR_NOT_MEMBER": (-13, "this PE is not a member of the team"),
    "WEFT_ERR_ALIGNMENT": (-14, "the address is not aligned for its type"),
    "WEFT_ERR_KERNEL": (-15, "a kernel could not be started, or was ended for a fault in it"),
    "WEFT_ERR_INTERRUPTED": (-16, "the program's check ended the wait"),
    "WEFT_ERR_PEER_DEAD": (-100, "a PE of the job has ended"),
    "WEFT_ERR_TIMEOUT": (-101, "the wait limit passed without progress"),
    "WEFT_ERR_NO_PATH": (-102, "there is no usable path to that PE"),
    "WEFT_ERR_PATH": (-103, "the path to that PE failed"),
    "WEFT_ERR_FINALIZED": (-200, "the job has been finalized"),
    "WEFT_ERR_BOOT": (-201, "the PEs of the job could not find each other"),
    "WEFT_ERR_JOB": (-202, "the job has failed"),
    "WEFT_ERR_VERSION": (-203, "the PEs run different versions of Weft"),
}

# name: the type of the result, then those of the arguments: v nothing, i int, u unsigned,
# z size_t, d ptrdiff_t, B H I Q unsigned integers of 1, 2, 4 and 8 bytes, s const char *,
# p any other pointer.
FUNCTIONS = {
    "weft_abort": "vpi",
    "weft_accessible": "ippi",
    "weft_allgather": "ipppz",
    "weft_allgather_on_stream": "ipppzp",
    "weft_alloc": "ipizzup",
    "weft_allreduce": "ipppzii",
    "weft_allreduce_on_stream": "ipppziip",
    "weft_allreduce_scaled": "ipppzip",
    "weft_allreduce_scaled_on_stream": "ipppzipp",
    "weft_allreduce_weighted": "ipppzip",
    "weft_allreduce_weighted_on_stream": "ipppzipp",
    "weft_alltoall": "ipppz",
    "weft_alltoall_on_stream": "ipppzp",
    "weft_alltoalls": "ipppddzz",
    "weft_alltoalls_on_stream": "ipppddzzp",
    "weft_alltoallv": "ippzppppp",
    "weft_alltoallv_on_stream": "ippzpppppp",
    "weft_atomic_add32": "ippIi",
    "weft_atomic_add64": "ippQi",
    "weft_atomic_and32": "ippIi",
    "weft_atomic_and64": "ippQi",
    "weft_atomic_cswap32": "ippIIpi",
    "weft_atomic_cswap64": "ippQQpi",
    "weft_atomic_fetch32": "ipppi",
    "weft_atomic_fetch64": "ipppi",
    "weft_atomic_fetch_add32": "ippIpi",
    "weft_atomic_fetch_add64": "ippQpi",
    "weft_atomic_fetch_and32": "ippIpi",
    "weft_atomic_fetch_and64": "ippQpi",
    "weft_atomic_fetch_or32": "ippIpi",
    "weft_atomic_fetch_or64": "ippQpi",
    "weft_atomic_fetch_xor32": "ippIpi",
    "weft_atomic_fetch_xor64": "ippQpi",
    "weft_atomic_nbi": "ipizpQQpi",
    "weft_atomic_or32": "ippIi",
    "weft_atomic_or64": "ippQi",
    "weft_atomic_set32": "ippIi",
    "weft_atomic_set64": "ippQi",
    "weft_atomic_swap32": "ippIpi",
    "weft_atomic_swap64": "ippQpi",
    "weft_atomic_xor32": "ippIi",
    "weft_atomic_xor64": "ippQi",
    "weft_barrier": "ip",
    "weft_barrier_on_stream": "ipp",
    "weft_broadcast": "ipppzi",
    "weft_broadcast_on_stream": "ipppzip",
    "weft_cancel": "ips",
    "weft_coll_plan_query": "ipp",
    "weft_collect": "ipppz",
    "weft_collect_on_stream": "ipppzp",
    "weft_copy_flush": "ipp",
    "weft_copy_from": "ipppz",
    "weft_copy_to": "ipppz",
    "weft_ctx_create": "ipup",
    "weft_ctx_destroy": "ip",
    "weft_ctx_team": "pp",
    "weft_default_ctx": "pp",
    "weft_device_check": "ip",
    "weft_device_queue_mode": "ipip",
    "weft_device_start": "ip",
    "weft_device_state": "ipip",
    "weft_event_create": "ip",
    "weft_event_destroy": "ip",
    "weft_event_elapsed": "ippp",
    "weft_event_record": "ipp",
    "weft_event_synchronize": "ip",
    "weft_event_wait": "ipp",
    "weft_experts_check": "ip",
    "weft_experts_combine_on_stream": "ippppppp",
    "weft_experts_combine_receive_on_stream": "ippppp",
    "weft_experts_combine_send_on_stream": "ippppp",
    "weft_experts_create": "ippp",
    "weft_experts_destroy": "ip",
    "weft_experts_dispatch_on_stream": "ippppp",
    "weft_experts_dispatch_receive_on_stream": "ipppp",
    "weft_experts_dispatch_send_on_stream": "ipppp",
    "weft_experts_query": "ipp",
    "weft_experts_range": "ipipp",
    "weft_experts_received": "ippp",
    "weft_experts_sizes": "iipp",
    "weft_fence": "ip",
    "weft_file_close": "ip",
    "weft_file_gather": "ipppzQp",
    "weft_file_join_checksums": "IIIQ",
    "weft_file_open": "ipsupp",
    "weft_file_query": "ipp",
    "weft_file_quiet": "ip",
    "weft_file_read": "ippzQip",
    "weft_file_read_nbi": "ippzQip",
    "weft_file_read_on_stream": "ippzQipp",
    "weft_file_read_vector": "ippz",
    "weft_file_read_vector_nbi": "ippz",
    "weft_file_resize": "ipQ",
    "weft_file_scatter": "ipppzQp",
    "weft_file_size": "ipp",
    "weft_file_sync": "ip",
    "weft_file_test": "ipp",
    "weft_file_write": "ippzQip",
    "weft_file_write_nbi": "ippzQip",
    "weft_file_write_on_stream": "ippzQipp",
    "weft_file_write_vector": "ippz",
    "weft_file_write_vector_nbi": "ippz",
    "weft_finalize": "ip",
    "weft_free": "ipp",
    "weft_g16": "ipppi",
    "weft_g32": "ipppi",
    "weft_g64": "ipppi",
    "weft_g8": "ipppi",
    "weft_gather": "ipppzi",
    "weft_gather_on_stream": "ipppzip",
    "weft_get": "ipppzi",
    "weft_get_nbi": "ipppzi",
    "weft_get_on_stream": "ipppzip",
    "weft_gpu_pair_query": "ipip",
    "weft_gpu_query": "ipp",
    "weft_group_create": "iip",
    "weft_group_destroy": "vp",
    "weft_iget": "ipppddzzi",
    "weft_init": "ipp",
    "weft_iput": "ipppddzzi",
    "weft_job_status": "ip",
    "weft_last_error": "s",
    "weft_map": "ippzip",
    "weft_map_flush": "ipp",
    "weft_map_query": "ipip",
    "weft_messages_create": "ipzp",
    "weft_messages_destroy": "ip",
    "weft_messages_on_stream": "ippzp",
    "weft_module_init": "ipp",
    "weft_my_pe": "ip",
    "weft_n_pes": "ip",
    "weft_p16": "ippHi",
    "weft_p32": "ippIi",
    "weft_p64": "ippQi",
    "weft_p8": "ippBi",
    "weft_path_query": "ipip",
    "weft_prove": "ip",
    "weft_ptr": "pppi",
    "weft_put": "ipppzi",
    "weft_put_nbi": "ipppzi",
    "weft_put_on_stream": "ipppzip",
    "weft_put_signal": "ipppzpQii",
    "weft_put_signal_nbi": "ipppzpQii",
    "weft_put_signal_on_stream": "ipppzpQiip",
    "weft_put_vector": "ipppddzzpp",
    "weft_query_thread": "ip",
    "weft_quiet": "ip",
    "weft_quiet_on_stream": "ipp",
    "weft_realloc": "ippzp",
    "weft_reduce": "ipppziii",
    "weft_reduce_on_stream": "ipppziiip",
    "weft_reduce_scaled": "ipppzipi",
    "weft_reduce_scaled_on_stream": "ipppzipip",
    "weft_reduce_weighted": "ipppzipi",
    "weft_reduce_weighted_on_stream": "ipppzipip",
    "weft_reducescatter": "ipppzii",
    "weft_reducescatter_on_stream": "ipppziip",
    "weft_reducescatter_scaled": "ipppzip",
    "weft_reducescatter_scaled_on_stream": "ipppzipp",
    "weft_reducescatter_weighted": "ipppzip",
    "weft_reducescatter_weighted_on_stream": "ipppzipp",
    "weft_register": "ippz",
    "weft_register_symmetric": "ippzp",
    "weft_scatter": "ipppzi",
    "weft_scatter_on_stream": "ipppzip",
    "weft_set_interrupt": "ippp",
    "weft_signal": "ippQii",
    "weft_signal_fetch": "ippp",
    "weft_signal_on_stream": "ippQiip",
    "weft_signal_wait": "ippiQp",
    "weft_signal_wait_on_stream": "ippiQp",
    "weft_status_name": "si",
    "weft_status_text": "si",
    "weft_stream_create": "ip",
    "weft_stream_destroy": "ip",
    "weft_stream_host_call": "ippp",
    "weft_stream_query": "ipp",
    "weft_stream_synchronize": "ip",
    "weft_sync": "ip",
    "weft_sync_on_stream": "ipp",
    "weft_target_get": "i",
    "weft_target_name": "si",
    "weft_team_destroy": "ip",
    "weft_team_limit_sms": "ipi",
    "weft_team_my_pe": "ip",
    "weft_team_n_pes": "ip",
    "weft_team_node": "pp",
    "weft_team_split_2d": "ipipp",
    "weft_team_split_strided": "ipiiip",
    "weft_team_translate": "ipip",
    "weft_team_use_sms": "ipi",
    "weft_team_world": "pp",
    "weft_test": "ipipiQp",
    "weft_test_all": "ipipzpiQp",
    "weft_test_all_vector": "ipipzpipp",
    "weft_test_any": "ipipzpiQp",
    "weft_test_any_vector": "ipipzpipp",
    "weft_test_some": "ipipzppiQp",
    "weft_test_some_vector": "ipipzppipp",
    "weft_unique_id_get": "ip",
    "weft_unmap": "ipp",
    "weft_unregister": "ipp",
    "weft_unregister_symmetric": "ipp",
    "weft_version": "s",
    "weft_wait_until": "ipipiQ",
    "weft_wait_until_all": "ipipzpiQ",
    "weft_wait_until_all_vector": "ipipzpip",
    "weft_wait_until_any": "ipipzpiQp",
    "weft_wait_until_any_vector": "ipipzpipp",
    "weft_wait_until_some": "ipipzppiQp",
    "weft_wait_until_some_vector": "ipipzppipp",
}
