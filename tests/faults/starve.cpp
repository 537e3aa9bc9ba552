// A library to preload (LD_PRELOAD) that makes a machine look starved, from one call to another. Which, and how many
// there were, is said by ctypes; the package under test is the one that users get.
//
//   memory    operator new, when the core calls it
//   threads   pthread_create
//   disk      whatever makes a file longer or new: open, write, fsync, rename
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace {

struct Fault {
    std::atomic<long> calls{0}, first{0}, last{0};  // those from the first to the last fail, counted from 1

    bool now() {
        const long call = ++calls;
        return first <= call && call <= last;
    }
};

Fault memory, threads, disk;

Fault& named(std::string_view name) { return name == "memory" ? memory : name == "threads" ? threads : disk; }

// The function that this one stands before.
template <typename Function>
Function* next(Function*, const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name)                                    \
    static const auto real = next(&::name, #name)

bool called_by_the_core(void* caller) {
    Dl_info about;
    return dladdr(caller, &about) != 0 && std::strstr(about.dli_fname, "/_core.") != nullptr;
}

void* allocated(void* caller, void* (*allocate)(size_t, size_t), size_t size, size_t alignment) {
    void* bytes = called_by_the_core(caller) && memory.now() ? nullptr : allocate(size, alignment);
    if (bytes == nullptr) throw std::bad_alloc();
    return bytes;
}

bool full() {
    if (!disk.now()) return false;
    errno = ENOSPC;
    return true;
}

bool is_file(int handle) {
    struct stat about;
    return fstat(handle, &about) == 0 && S_ISREG(about.st_mode);
}

mode_t mode_of(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

}  // namespace

void* operator new(size_t size) {
    return allocated(
        __builtin_return_address(0), [](size_t bytes, size_t) { return std::malloc(bytes); }, size + (size == 0), 0);
}

void* operator new(size_t size, std::align_val_t to) {
    const auto alignment = static_cast<size_t>(to);
    return allocated(
        __builtin_return_address(0), [](size_t bytes, size_t line) { return std::aligned_alloc(line, bytes); },
        (size + alignment) / alignment * alignment, alignment);
}

extern "C" {

// No call fails with first > last.
void starve(const char* name, long first, long last) {
    Fault& fault = named(name);
    fault.last = 0;
    fault.calls = 0;
    fault.first = first;
    fault.last = last;
}

long starve_calls(const char* name) { return named(name).calls; }

int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*work)(void*), void* with) {
    NEXT(pthread_create);
    return threads.now() ? EAGAIN : real(thread, how, work, with);
}

ssize_t write(int file, const void* bytes, size_t size) {
    NEXT(write);
    return is_file(file) && full() ? -1 : real(file, bytes, size);
}

ssize_t writev(int file, const iovec* parts, int n_parts) {
    NEXT(writev);
    return is_file(file) && full() ? -1 : real(file, parts, n_parts);
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
    NEXT(pwrite64);
    return is_file(file) && full() ? -1 : real(file, bytes, size, at);
}

int fsync(int file) {
    NEXT(fsync);
    return is_file(file) && full() ? -1 : real(file);
}

int rename(const char* from, const char* to) {
    NEXT(rename);
    return full() ? -1 : real(from, to);
}

int open(const char* path, int flags, ...) {
    NEXT(open);
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return (flags & O_CREAT) != 0 && full() ? -1 : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    NEXT(open64);
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return (flags & O_CREAT) != 0 && full() ? -1 : real(path, flags, mode);
}
}
