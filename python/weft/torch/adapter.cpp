// SPDX-License-Identifier: Apache-2.0
// Weft as a backend of torch's symmetric memory: torch's two C++ classes, whose functions call the
// Python objects of symm.py. _adapter.py compiles this file with the installed torch's headers.
//
// torch's virtual functions differ by version. A function that is not in the header of torch 2.11,
// the oldest version supported, has no `override`.

#include <Python.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using c10d::symmetric_memory::SymmetricMemory;
using c10d::symmetric_memory::SymmetricMemoryAllocator;
using Name = std::optional<std::string>;

// Holds the GIL. torch calls with it and without it.
struct Gil {
    PyGILState_STATE state = PyGILState_Ensure();
    ~Gil()
    {
        PyGILState_Release(state);
    }
};

// A Python object, used with the GIL held.
class Object {
public:
    explicit Object(PyObject *owned) : object_(owned)
    {
        if (owned)
            return;
        python_error error;
        error.persist();
        throw error;
    }
    Object(const Object &) = delete;
    Object &operator=(const Object &) = delete;
    ~Object()
    {
        Py_XDECREF(object_);
    }
    PyObject *get() const
    {
        return object_;
    }
    PyObject *release()
    {
        return std::exchange(object_, nullptr);
    }
    Object attribute(const char *name) const
    {
        return Object(PyObject_GetAttrString(object_, name));
    }
    size_t number() const
    {
        size_t value = PyLong_AsSize_t(object_);
        if (PyErr_Occurred())
            Object(nullptr);
        return value;
    }

private:
    PyObject *object_;
};

template <typename... Arguments>
Object call(PyObject *object, const char *function, const char *format, Arguments... arguments)
{
    return Object(PyObject_CallMethod(object, function, format, arguments...));
}

void *pointer(const Object &number)
{
    return reinterpret_cast<void *>(number.number());
}

std::vector<void *> pointers(const Object &list)
{
    std::vector<void *> found;
    for (Py_ssize_t i = 0; i < PyList_Size(list.get()); i++)
        found.push_back(PyLong_AsVoidPtr(PyList_GetItem(list.get(), i)));
    return found;
}

// At the end of the process Python may be gone before torch's objects.
bool python_is_there()
{
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// A handle of symm.py. What torch asks for at each operation is read once.
class Memory : public SymmetricMemory {
public:
    Memory(Object &handle, c10::Device device)
        : device_(device), rank_(static_cast<int>(handle.attribute("rank").number())),
          buffers_(pointers(handle.attribute("buffer_ptrs"))),
          pads_(pointers(handle.attribute("signal_pad_ptrs"))),
          buffers_dev_(static_cast<void **>(pointer(handle.attribute("buffer_ptrs_dev")))),
          pads_dev_(static_cast<void **>(pointer(handle.attribute("signal_pad_ptrs_dev")))),
          buffer_size_(handle.attribute("buffer_size").number()),
          offset_(handle.attribute("offset").number())
    {
        Object ranks = handle.attribute("global_ranks");
        for (void *rank : pointers(ranks))
            global_ranks_.push_back(static_cast<int>(reinterpret_cast<intptr_t>(rank)));
        handle_ = handle.release();
    }
    ~Memory() override
    {
        if (!python_is_there())
            return;
        Gil gil;
        Py_DECREF(handle_);
    }
    std::vector<void *> get_buffer_ptrs() override
    {
        return buffers_;
    }
    std::vector<void *> get_signal_pad_ptrs() override
    {
        return pads_;
    }
    void **get_buffer_ptrs_dev() override
    {
        return buffers_dev_;
    }
    void **get_signal_pad_ptrs_dev() override
    {
        return pads_dev_;
    }
    size_t get_buffer_size() override
    {
        return buffer_size_;
    }
    size_t get_offset() override
    {
        return offset_;
    }
    bool has_multicast_support() override
    {
        return false;
    }
    void *get_multicast_ptr() override
    {
        return nullptr;
    }
    void barrier(int channel, size_t timeout_ms) override
    {
        Gil gil;
        call(handle_, "barrier", "in", channel, static_cast<Py_ssize_t>(timeout_ms));
    }
    void put_signal(int dst_rank, int channel, size_t timeout_ms) override
    {
        Gil gil;
        call(handle_, "put_signal", "iin", dst_rank, channel, static_cast<Py_ssize_t>(timeout_ms));
    }
    void wait_signal(int src_rank, int channel, size_t timeout_ms) override
    {
        Gil gil;
        call(handle_, "wait_signal", "iin", src_rank, channel,
             static_cast<Py_ssize_t>(timeout_ms));
    }
    int get_rank() override
    {
        return rank_;
    }
    int get_world_size() override
    {
        return static_cast<int>(buffers_.size());
    }
    c10::Device get_device() override
    {
        return device_;
    }
    const std::vector<int> &get_rank_to_global_rank() override
    {
        return global_ranks_;
    }
    bool world_within_direct_access() override
    {
        for (void *buffer : buffers_)
            if (!buffer)
                return false;
        return true;
    }

private:
    PyObject *handle_ = nullptr;
    c10::Device device_;
    int rank_;
    std::vector<void *> buffers_, pads_;
    void **buffers_dev_, **pads_dev_;
    size_t buffer_size_, offset_;
    std::vector<int> global_ranks_;
};

class Allocator : public SymmetricMemoryAllocator {
public:
    // backend: the Python object, which the process keeps.
    Allocator(PyObject *backend, c10::DeviceType type) : backend_(backend), type_(type)
    {
    }
    void *alloc(size_t size, int device_idx, const Name &group_name) override
    {
        Gil gil;
        return pointer(call(backend_, "alloc", "nsiz", static_cast<Py_ssize_t>(size),
                            type_ == c10::DeviceType::CPU ? "cpu" : "cuda", device_idx,
                            group_name ? group_name->c_str() : nullptr));
    }
    void free(void *address) override
    {
        if (!python_is_there())
            return;
        std::vector<c10::intrusive_ptr<Memory>> dropped; // after the lock
        {
            std::lock_guard<std::mutex> lock(mutex_);
            auto first = known_.lower_bound({address, ""});
            auto last = first;
            for (; last != known_.end() && last->first.first == address; ++last)
                dropped.push_back(last->second);
            known_.erase(first, last);
        }
        Gil gil; // torch frees in destructors, which must not throw
        PyObject *done =
            PyObject_CallMethod(backend_, "free", "n", reinterpret_cast<Py_ssize_t>(address));
        if (!done)
            PyErr_WriteUnraisable(backend_);
        Py_XDECREF(done);
    }
    size_t get_alloc_size(void *address) override
    {
        Gil gil;
        return call(backend_, "size", "n", reinterpret_cast<Py_ssize_t>(address)).number();
    }
    // The handle of an address and a group is made once: torch's operations ask for it each time.
    c10::intrusive_ptr<SymmetricMemory> rendezvous(void *address, const Name &group_name) override
    {
        std::pair<void *, std::string> key(address, group_name.value_or(""));
        {
            std::lock_guard<std::mutex> lock(mutex_);
            auto found = known_.find(key);
            if (found != known_.end())
                return found->second;
        }
        Gil gil;
        Object handle = call(backend_, "rendezvous", "nz", reinterpret_cast<Py_ssize_t>(address),
                             group_name ? group_name->c_str() : nullptr);
        c10::Device device(type_);
        if (type_ != c10::DeviceType::CPU)
            device.set_index(static_cast<c10::DeviceIndex>(
                handle.attribute("device").attribute("index").number()));
        auto made = c10::make_intrusive<Memory>(handle, device);
        std::lock_guard<std::mutex> lock(mutex_);
        known_[key] = made;
        return made;
    }
    bool has_multicast_support(int) override
    {
        return false;
    }
    c10::DeviceType supported_device_type() override
    {
        return type_;
    }
    std::string name() override
    {
        return "WEFT";
    }
    bool has_allocation(void *address) // after torch 2.11
    {
        Gil gil;
        return PyObject_IsTrue(
            call(backend_, "has", "n", reinterpret_cast<Py_ssize_t>(address)).get());
    }

private:
    PyObject *backend_;
    c10::DeviceType type_;
    std::mutex mutex_;
    std::map<std::pair<void *, std::string>, c10::intrusive_ptr<Memory>> known_;
};

} // namespace

// Called once, with the GIL held. gpus: whether "WEFT" is the name of the allocator for GPUs; else
// it is that of the one for the CPU.
extern "C" __attribute__((visibility("default"))) void weft_register_symm(PyObject *backend,
                                                                          int gpus)
{
    using namespace c10d::symmetric_memory;
    Py_INCREF(backend); // torch keeps the allocators until the process ends
    auto cpu = c10::make_intrusive<Allocator>(backend, c10::DeviceType::CPU);
    register_allocator(c10::DeviceType::CPU, cpu);
    if (gpus)
        register_availability("WEFT",
                              c10::make_intrusive<Allocator>(backend, c10::DeviceType::CUDA));
    else
        register_availability("WEFT", cpu);
}
