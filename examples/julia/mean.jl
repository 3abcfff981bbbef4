# SPDX-License-Identifier: Apache-2.0
# The mean of numbers of all ranks, and a checkpoint of them, by ccall:
#   distdl run -- julia mean.jl
#   DISTDL_LIBRARY=/opt/distdl/lib/libdistdl.so julia mean.jl FOLDER
const library = get(ENV, "DISTDL_LIBRARY", "libdistdl.so.0.2")
const F64, AVERAGE, NOW = Cint(2), Cint(3), Cint(1)

error_text() = unsafe_string(ccall((:distdl_error_text, library), Cstring, ()))
check(code) = code == 0 ? nothing : error(error_text())

"""Calls make(place), which writes a new handle to its place."""
function handle(make)
    place = Ref{Ptr{Cvoid}}(C_NULL)
    check(make(place))
    return place[]
end

comm = handle(place -> ccall((:distdl_comm_create, library), Cint, (Cstring, Ref{Ptr{Cvoid}}), C_NULL, place))
rank, ranks = Ref{Cint}(0), Ref{Cint}(0)
check(ccall((:distdl_comm_rank, library), Cint, (Ptr{Cvoid}, Ref{Cint}), comm, rank))
check(ccall((:distdl_comm_size, library), Cint, (Ptr{Cvoid}, Ref{Cint}), comm, ranks))

# In Julia, too, the first dimension is C's last one.
values = fill(Float64(rank[]), 3, 2)
check(ccall((:distdl_all_reduce, library), Cint,
            (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Cint, Cint, Ptr{Cvoid}),
            comm, values, values, length(values), F64, AVERAGE, C_NULL))

folder = isempty(ARGS) ? C_NULL : ARGS[1]
store = handle(place -> ccall((:distdl_store_open, library), Cint,
                              (Cstring, Ptr{Cvoid}, Cstring, Ref{Ptr{Cvoid}}), folder, comm, C_NULL, place))
save = handle(place -> ccall((:distdl_save_begin, library), Cint, (Ptr{Cvoid}, Int64, Ref{Ptr{Cvoid}}), store, 1, place))
shape = collect(Int64, reverse(size(values)))
check(ccall((:distdl_save_add_replicated, library), Cint,
            (Ptr{Cvoid}, Cstring, Cint, Cint, Ptr{Int64}, Ptr{Cvoid}), save, "values", F64, 2, shape, values))
GC.@preserve values check(ccall((:distdl_save_commit, library), Cint, (Ptr{Cvoid}, Cint), save, NOW))
check(ccall((:distdl_saved, library), Cint, (Int64, Cdouble), 1, -1))
check(ccall((:distdl_store_close, library), Cint, (Ptr{Cvoid},), store))
check(ccall((:distdl_finished, library), Cint, ()))
check(ccall((:distdl_comm_close, library), Cint, (Ptr{Cvoid},), comm))
rank[] == 0 && println("$(ranks[]) ranks: the mean is $(values[1])")
