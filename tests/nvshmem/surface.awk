# SPDX-License-Identifier: Apache-2.0
# A second description of the functions that nvshmem.h promises: prints a C file in which a pointer
# of the documented type is set to each function (or, with -v names=1, only the names).
function emit(where, ret, name, params) {
    if (names) { print name; return }
    printf "static %s (*const volatile p_%d)%s __attribute__((unused)) = %s;\n", ret, ++count, params, name
}
# One function of device and host, of warp and block, and on a stream. on: letters B (both), D, W, S
function forms(on, ret, name, params,    x, p) {
    x = name; sub(/^nvshmemx?_/, "nvshmemx_", x)
    p = params; sub(/\)$/, ", cudaStream_t)", p); sub(/\(void, /, "(", p)
    if (on ~ /[BD]/) emit("", ret, name, params)
    if (on ~ /W/) { emit("", ret, x "_warp", params); emit("", ret, x "_block", params) }
    if (on ~ /S/) emit("", ret, x "_on_stream", p)
}
function moves(T, put, get) {
    forms("BWS", "void", "nvshmem_" put, "(" T " *, const " T " *, size_t, int)")
    forms("BWS", "void", "nvshmem_" get, "(" T " *, const " T " *, size_t, int)")
    forms("BWS", "void", "nvshmem_" put "_nbi", "(" T " *, const " T " *, size_t, int)")
    forms("BWS", "void", "nvshmem_" get "_nbi", "(" T " *, const " T " *, size_t, int)")
    forms("DWS", "void", "nvshmem_" put "_signal", "(" T " *, const " T " *, size_t, uint64_t *, uint64_t, int, int)")
    forms("DWS", "void", "nvshmem_" put "_signal_nbi", "(" T " *, const " T " *, size_t, uint64_t *, uint64_t, int, int)")
}
function strided(T, iput, iget) {
    forms("BWS", "void", "nvshmem_" iput, "(" T " *, const " T " *, ptrdiff_t, ptrdiff_t, size_t, int)")
    forms("BWS", "void", "nvshmem_" iget, "(" T " *, const " T " *, ptrdiff_t, ptrdiff_t, size_t, int)")
}
function collectives(T, before, after) {
    forms("BWS", "int", "nvshmem_" before "broadcast" after, "(nvshmem_team_t, " T " *, const " T " *, size_t, int)")
    forms("BWS", "int", "nvshmem_" before "fcollect" after, "(nvshmem_team_t, " T " *, const " T " *, size_t)")
    forms("BWS", "int", "nvshmem_" before "alltoall" after, "(nvshmem_team_t, " T " *, const " T " *, size_t)")
}
function reduces(name, T, op) {
    forms("BWS", "int", "nvshmem_" name "_" op "_reduce", "(nvshmem_team_t, " T " *, const " T " *, size_t)")
    forms("BWS", "int", "nvshmem_" name "_" op "_reducescatter", "(nvshmem_team_t, " T " *, const " T " *, size_t)")
}
function waits(name, T,    v, V) {
    forms("DS", "void", "nvshmem_" name "_wait_until", "(" T " *, int, " T ")")
    emit("", "int", "nvshmem_" name "_test", "(" T " *, int, " T ")")
    for (v = 0; v < 2; v++) {
        V = v ? "_vector" : ""
        forms("DS", "void", "nvshmem_" name "_wait_until_all" V, "(" T " *, size_t, const int *, int, " T (v ? " *" : "") ")")
        emit("", "size_t", "nvshmem_" name "_wait_until_any" V, "(" T " *, size_t, const int *, int, " T (v ? " *" : "") ")")
        emit("", "size_t", "nvshmem_" name "_wait_until_some" V, "(" T " *, size_t, size_t *, const int *, int, " T (v ? " *" : "") ")")
        emit("", "int", "nvshmem_" name "_test_all" V, "(" T " *, size_t, const int *, int, " T (v ? " *" : "") ")")
        emit("", "size_t", "nvshmem_" name "_test_any" V, "(" T " *, size_t, const int *, int, " T (v ? " *" : "") ")")
        emit("", "size_t", "nvshmem_" name "_test_some" V, "(" T " *, size_t, size_t *, const int *, int, " T (v ? " *" : "") ")")
    }
}
function one_sided(name, T) {
    forms("BS", "void", "nvshmem_" name "_p", "(" T " *, " T ", int)")
    forms("BS", T, "nvshmem_" name "_g", "(const " T " *, int)")
    moves(T, name "_put", name "_get")
    strided(T, name "_iput", name "_iget")
    collectives(T, name "_", "")
    emit("", "int", "nvshmem_" name "_alltoalls", "(nvshmem_team_t, " T " *, const " T " *, ptrdiff_t, ptrdiff_t, size_t)")
    emit("", "int", "nvshmemx_" name "_alltoalls_on_stream", "(nvshmem_team_t, " T " *, const " T " *, ptrdiff_t, ptrdiff_t, size_t, cudaStream_t)")
    queues(name, T)
}
# Operations on a queue pair: those of device code with one more parameter.
function queues(name, T,    i, n, group) {
    emit("", "void", "nvshmemx_qp_" name "_p", "(" T " *, " T ", int, nvshmemx_qp_handle_t)")
    emit("", T, "nvshmemx_qp_" name "_g", "(const " T " *, int, nvshmemx_qp_handle_t)")
    n = split(" _warp _block", group, " ")
    for (i = 0; i <= n; i++) {
        emit("", "void", "nvshmemx_qp_" name "_put" group[i], "(" T " *, const " T " *, size_t, int, nvshmemx_qp_handle_t)")
        emit("", "void", "nvshmemx_qp_" name "_get" group[i], "(" T " *, const " T " *, size_t, int, nvshmemx_qp_handle_t)")
        emit("", "void", "nvshmemx_qp_" name "_put_nbi" group[i], "(" T " *, const " T " *, size_t, int, nvshmemx_qp_handle_t)")
        emit("", "void", "nvshmemx_qp_" name "_get_nbi" group[i], "(" T " *, const " T " *, size_t, int, nvshmemx_qp_handle_t)")
        emit("", "void", "nvshmemx_qp_" name "_put_signal" group[i], "(" T " *, const " T " *, size_t, uint64_t *, uint64_t, int, int, nvshmemx_qp_handle_t)")
        emit("", "void", "nvshmemx_qp_" name "_put_signal_nbi" group[i], "(" T " *, const " T " *, size_t, uint64_t *, uint64_t, int, int, nvshmemx_qp_handle_t)")
    }
}
function amo(list, pairs,    i, n, names_, j, m, ops) {
    n = split(list, names_, " ")
    m = split(pairs, ops, " ")
    for (i = 1; i <= n; i++)
        for (j = 1; j <= m; j++)
            amo_one(names_[i], type[names_[i]], ops[j])
}
function amo_one(name, T, op) {
    if (op == "inc") emit("", "void", "nvshmem_" name "_atomic_inc", "(" T " *, int)")
    else if (op == "fetch_inc") emit("", T, "nvshmem_" name "_atomic_fetch_inc", "(" T " *, int)")
    else if (op == "fetch") emit("", T, "nvshmem_" name "_atomic_fetch", "(const " T " *, int)")
    else if (op == "compare_swap") emit("", T, "nvshmem_" name "_atomic_compare_swap", "(" T " *, " T ", " T ", int)")
    else if (op == "swap" || op ~ /^fetch_/) emit("", T, "nvshmem_" name "_atomic_" op, "(" T " *, " T ", int)")
    else emit("", "void", "nvshmem_" name "_atomic_" op, "(" T " *, " T ", int)")
}
BEGIN {
    plain = "float:float double:double char:char short:short schar:signed_char int:int long:long longlong:long_long uchar:unsigned_char ushort:unsigned_short uint:unsigned_int ulong:unsigned_long ulonglong:unsigned_long_long int8:int8_t int16:int16_t int32:int32_t int64:int64_t uint8:uint8_t uint16:uint16_t uint32:uint32_t uint64:uint64_t size:size_t ptrdiff:ptrdiff_t"
    n = split(plain, pairs, " ")
    for (i = 1; i <= n; i++) {
        split(pairs[i], one, ":")
        T = one[2]
        if (T !~ /_t$/) gsub(/_/, " ", T)
        type[one[1]] = T
        rma = rma " " one[1]
    }
    type["half"] = "weft_nv_half"; type["bfloat16"] = "weft_nv_bfloat16"
    if (!names) print "#include <nvshmem.h>\n#include <nvshmemx.h>"
    n = split("half bfloat16" rma, list, " ")
    for (i = 1; i <= n; i++) one_sided(list[i], type[list[i]])
    n = split("8 16 32 64 128", list, " ")
    for (i = 1; i <= n; i++) { moves("void", "put" list[i], "get" list[i]); strided("void", "iput" list[i], "iget" list[i]) }
    moves("void", "putmem", "getmem")
    sub(/x/, "x", rma)
    collectives("void", "", "mem")

    bits = "uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size"
    n = split(bits, list, " ")
    for (i = 1; i <= n; i++) { reduces(list[i], type[list[i]], "and"); reduces(list[i], type[list[i]], "or"); reduces(list[i], type[list[i]], "xor") }
    n = split(bits " char schar short int long longlong bfloat16 half float double", list, " ")
    for (i = 1; i <= n; i++) { reduces(list[i], type[list[i]], "min"); reduces(list[i], type[list[i]], "max"); reduces(list[i], type[list[i]], "sum"); reduces(list[i], type[list[i]], "prod") }

    n = split("short int long longlong ushort uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff", list, " ")
    for (i = 1; i <= n; i++) waits(list[i], type[list[i]])

    bitwise = "uint ulong ulonglong int32 uint32 int64 uint64"
    standard = bitwise " int long longlong size ptrdiff"
    amo(bitwise, "and or xor fetch_and fetch_or fetch_xor")
    amo(standard, "inc fetch_inc add fetch_add compare_swap")
    amo(standard " float double", "fetch set swap")
    n = split("float double", list, " ")
    for (i = 1; i <= n; i++) {
        emit("", "void", "nvshmemx_" list[i] "_atomic_add", "(" list[i] " *, " list[i] ", int)")
        emit("", list[i], "nvshmemx_" list[i] "_atomic_fetch_add", "(" list[i] " *, " list[i] ", int)")
    }

    forms("BS", "void", "nvshmemx_signal_op", "(uint64_t *, uint64_t, int, int)")
    emit("", "uint64_t", "nvshmem_signal_fetch", "(uint64_t *)")
    emit("", "uint64_t", "nvshmem_signal_wait_until", "(uint64_t *, int, uint64_t)")
    emit("", "void", "nvshmemx_signal_wait_until_on_stream", "(uint64_t *, int, uint64_t, cudaStream_t)")
    emit("", "void", "nvshmem_fence", "(void)")
    forms("BWS", "void", "nvshmemx_flush", "(void)")
    emit("", "int", "nvshmemx_qp_create", "(int, nvshmemx_qp_handle_t **)")
    emit("", "void", "nvshmemx_qp_signal_op", "(uint64_t *, uint64_t, int, int, nvshmemx_qp_handle_t)")
    emit("", "void", "nvshmemx_qp_quiet", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "void", "nvshmemx_qp_quiet_warp", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "void", "nvshmemx_qp_quiet_block", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "void", "nvshmemx_qp_fence", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "void", "nvshmemx_qp_fence_warp", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "void", "nvshmemx_qp_fence_block", "(int, nvshmemx_qp_handle_t *, int)")
    emit("", "int", "nvshmemx_barrier_warpgroup", "(nvshmem_team_t)")
    emit("", "void", "nvshmemx_barrier_all_warpgroup", "(void)")
    emit("", "int", "nvshmemx_team_sync_warpgroup", "(nvshmem_team_t)")
    emit("", "int", "nvshmemx_sync_warpgroup", "(nvshmem_team_t)")
    emit("", "void", "nvshmemx_signal_counted_reset", "(uint64_t *)")
    emit("", "uint64_t", "nvshmemx_signal_counted_load", "(const uint64_t *)")
    emit("", "void", "nvshmemx_signal_counted_wait_until", "(const uint64_t *, uint64_t)")
    emit("", "int", "nvshmemx_putmem_signal_counted_nbi_block", "(void *, const void *, size_t, uint64_t *, int)")
    emit("", "int", "nvshmemx_region_start", "(nvshmemx_region_handle_t *, const nvshmemx_region_attrs_t *)")
    emit("", "int", "nvshmemx_region_start_block", "(nvshmemx_region_handle_t *, const nvshmemx_region_attrs_t *)")
    emit("", "int", "nvshmemx_region_stop", "(nvshmemx_region_handle_t)")
    emit("", "int", "nvshmemx_region_stop_block", "(nvshmemx_region_handle_t)")
    emit("", "int", "nvshmemx_region_is_active", "(uint32_t, int *)")
    emit("", "int", "nvshmemx_ask_smem", "(nvshmemx_smem_amount_t)")
    emit("", "void", "nvshmemx_give_smem", "(void *, size_t)")
    emit("", "void", "nvshmemx_release_smem", "(void)")
    emit("", "void", "nvshmemx_sync_all_warpgroup", "(void)")
    forms("BS", "void", "nvshmem_quiet", "(void)")
    forms("BWS", "int", "nvshmem_barrier", "(nvshmem_team_t)")
    forms("BWS", "void", "nvshmem_barrier_all", "(void)")
    forms("BWS", "int", "nvshmem_team_sync", "(nvshmem_team_t)")
    forms("BWS", "int", "nvshmem_sync", "(nvshmem_team_t)")
    forms("BWS", "void", "nvshmem_sync_all", "(void)")
    emit("", "int", "nvshmemx_double2_maxloc_reduce_block", "(nvshmem_team_t, weft_nv_double2 *, const weft_nv_double2 *, size_t)")

    emit("", "void", "nvshmem_init", "(void)")
    emit("", "int", "nvshmem_init_thread", "(int, int *)")
    emit("", "void", "nvshmem_query_thread", "(int *)")
    emit("", "void", "nvshmem_finalize", "(void)")
    emit("", "void", "nvshmem_global_exit", "(int)")
    emit("", "int", "nvshmem_my_pe", "(void)")
    emit("", "int", "nvshmem_n_pes", "(void)")
    emit("", "void", "nvshmem_info_get_version", "(int *, int *)")
    emit("", "void", "nvshmem_info_get_name", "(char *)")
    emit("", "void", "nvshmemx_vendor_get_version_info", "(int *, int *, int *)")
    emit("", "int", "nvshmemx_init_status", "(void)")
    emit("", "int", "nvshmemx_init_attr", "(unsigned, nvshmemx_init_attr_t *)")
    emit("", "int", "nvshmemx_hostlib_init_attr", "(unsigned, nvshmemx_init_attr_t *)")
    emit("", "void", "nvshmemx_hostlib_finalize", "(void)")
    emit("", "int", "nvshmemx_get_uniqueid", "(nvshmemx_uniqueid_t *)")
    emit("", "int", "nvshmemx_set_attr_uniqueid_args", "(int, int, const nvshmemx_uniqueid_t *, nvshmemx_init_attr_t *)")
    emit("", "int", "nvshmemx_set_attr_mpi_comm_args", "(void *, nvshmemx_init_attr_t *)")
    emit("", "const char *", "nvshmemx_status_string", "(int)")
    emit("", "int", "nvshmemx_cumodule_init", "(void *)")
    emit("", "int", "nvshmemx_cumodule_finalize", "(void *)")
    emit("", "int", "nvshmemx_culibrary_init", "(void *)")
    emit("", "int", "nvshmemx_culibrary_finalize", "(void *)")
    emit("", "void *", "nvshmemx_mc_ptr", "(nvshmem_team_t, const void *)")
    emit("", "void *", "nvshmem_realloc", "(void *, size_t)")
    emit("", "void *", "nvshmem_malloc", "(size_t)")
    emit("", "void *", "nvshmem_calloc", "(size_t, size_t)")
    emit("", "void *", "nvshmem_align", "(size_t, size_t)")
    emit("", "void", "nvshmem_free", "(void *)")
    emit("", "void *", "nvshmem_ptr", "(const void *, int)")
    emit("", "int", "nvshmemx_buffer_register", "(void *, size_t)")
    emit("", "int", "nvshmemx_buffer_unregister", "(void *)")
    emit("", "void", "nvshmemx_buffer_unregister_all", "(void)")
    emit("", "void *", "nvshmemx_buffer_register_symmetric", "(void *, size_t, int)")
    emit("", "int", "nvshmemx_buffer_unregister_symmetric", "(void *, size_t)")
    emit("", "int", "nvshmem_team_my_pe", "(nvshmem_team_t)")
    emit("", "int", "nvshmem_team_n_pes", "(nvshmem_team_t)")
    emit("", "int", "nvshmem_team_translate_pe", "(nvshmem_team_t, int, nvshmem_team_t)")
    emit("", "void", "nvshmem_team_get_config", "(nvshmem_team_t, nvshmem_team_config_t *)")
    emit("", "int", "nvshmem_team_split_strided", "(nvshmem_team_t, int, int, int, const nvshmem_team_config_t *, long, nvshmem_team_t *)")
    emit("", "int", "nvshmem_team_split_2d", "(nvshmem_team_t, int, const nvshmem_team_config_t *, long, nvshmem_team_t *, const nvshmem_team_config_t *, long, nvshmem_team_t *)")
    emit("", "int", "nvshmemx_team_get_uniqueid", "(nvshmemx_team_uniqueid_t *)")
    emit("", "int", "nvshmemx_team_init", "(nvshmem_team_t *, nvshmem_team_config_t *, long, int, int)")
    emit("", "void", "nvshmem_team_destroy", "(nvshmem_team_t)")
    emit("", "int", "nvshmemx_collective_launch", "(const void *, weft_dim3, weft_dim3, void **, size_t, cudaStream_t)")
    emit("", "int", "nvshmemx_collective_launch_query_gridsize", "(const void *, weft_dim3, void **, size_t, int *)")
    if (!names) print "#if WEFT_NV_CUDA_HEADERS"
    emit("", "int", "nvshmemx_collective_launch_attr", "(const nvshmemx_collective_launch_attr_t *, const void *, void **)")
    if (!names) print "#endif\nint main(void) { return 0; }"
}
