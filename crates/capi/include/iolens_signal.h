/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * iolens_signal: how busy the disks under a path are, and what background work should do about it.
 * Link with -liolens_signal. All functions may be called from any thread at any time, except that nothing may use a
 * handle while or after it is closed. Percentages are 0 to 100; NaN means "not known", never "idle".
 */
#ifndef IOLENS_SIGNAL_H
#define IOLENS_SIGNAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IOLENS_ABI_VERSION 1

typedef struct iolens_signal iolens_signal;
typedef struct iolens_brake iolens_brake;

typedef struct iolens_reading {
    double mean_percent; /* mean over the disks: one hot disk hides in it */
    double max_percent;  /* the busiest disk */
    double any_percent;  /* share of time with an I/O on any of them */
    int64_t span_ns;     /* length of the interval */
    uint32_t disks;      /* how many */
    uint32_t known;      /* 1: all of them are known; 0: the percentages are NaN */
} iolens_reading;

enum {
    IOLENS_MODE_OFF = 0,       /* no need to yield */
    IOLENS_MODE_HOLD = 1,      /* between the marks */
    IOLENS_MODE_THROTTLE = 2,  /* above the high mark */
    IOLENS_MODE_EMERGENCY = 3, /* above the maximum */
    IOLENS_MODE_BLIND = 4      /* no reading for three seconds: the floor */
};

/* IOLENS_ABI_VERSION of the library that was loaded. */
uint32_t iolens_abi_version(void);

/*
 * Opens the signal of the disks under a file, directory or block device. Between idle_ms (disks idle) and busy_ms (disks
 * busy) is how often the cached reading refreshes itself; 0 means 2000 and 100. NULL: error says why, for instance
 * because the path is on no local disk (tmpfs, network).
 */
iolens_signal *iolens_signal_open(const char *path, uint32_t idle_ms, uint32_t busy_ms, char *error, size_t error_len);

/* Frees it; NULL is allowed. */
void iolens_signal_close(iolens_signal *signal);

/* The cached reading: the busiest disk. Takes nanoseconds and never waits. NaN until the first interval has passed. */
double iolens_signal_percent(const iolens_signal *signal);

/* A fresh reading of the time since the last call (or since opening). Returns 0, or -1 for a null pointer. */
int32_t iolens_signal_sample(const iolens_signal *signal, iolens_reading *out);

/* Copies the name of the disk with this index; an empty name if there is none. Returns the number of disks. */
uint32_t iolens_signal_disk(const iolens_signal *signal, uint32_t index, char *name, size_t name_len);

/*
 * A controller for one background job: below low it runs freely, above high it yields, from max on it yields at once, and
 * it always gets floor_share (0 to 1) of the time. NULL: error says which rule the marks break.
 */
iolens_brake *iolens_brake_new(double low_percent, double high_percent, double max_percent, double floor_share, char *error, size_t error_len);

/* Frees it; NULL is allowed. */
void iolens_brake_free(iolens_brake *brake);

/*
 * Call it at an even pace, about once a second: at_ns is a clock that does not step, busy_percent what was seen since the
 * last call, foreground_percent the part of other work (NaN if it is not known). Returns the share of the time
 * (0 to 1) that the background may run until the next call.
 */
double iolens_brake_decide(const iolens_brake *brake, int64_t at_ns, double busy_percent, double foreground_percent, uint32_t *mode);

#ifdef __cplusplus
}
#endif

#endif
