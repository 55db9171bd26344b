/* The system calls of the packet loop, declared by hand for the same reason as libc.h: tcc finds no system headers.
 *
 * Structures are those of 64-bit Linux (x86-64 and aarch64), constants those of the kernel's user interface. */
#ifndef XF_POSIX_H
#define XF_POSIX_H

#include "libc.h"

struct timespec {
    int64_t tv_sec, tv_nsec;
};
#define CLOCK_MONOTONIC 1
int clock_gettime(int clock, struct timespec *now);
int nanosleep(const struct timespec *time, struct timespec *left);

int *__errno_location(void);
#define EINTR 4
#define EAGAIN 11
#define ENODEV 19
#define ENXIO 6
#define ENOSYS 38
#define EMSGSIZE 90
#define ENETDOWN 100

ssize_t read(int fd, void *data, size_t size);
ssize_t write(int fd, const void *data, size_t size);
int close(int fd);

struct iovec {
    void *iov_base;
    size_t iov_len;
};
struct msghdr {
    void *msg_name;
    uint32_t msg_namelen;
    struct iovec *msg_iov;
    size_t msg_iovlen;
    void *msg_control;
    size_t msg_controllen;
    int msg_flags;
};
struct mmsghdr {
    struct msghdr msg_hdr;
    unsigned msg_len;
};
struct cmsghdr {
    size_t cmsg_len;
    int cmsg_level, cmsg_type;
};
#define MSG_TRUNC 0x20
#define MSG_DONTWAIT 0x40
int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout);
int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);

#define SOL_PACKET 263
#define PACKET_AUXDATA 8
#define TP_STATUS_CSUMNOTREADY 8
#define TP_STATUS_VLAN_VALID 16
#define TP_STATUS_VLAN_TPID_VALID 64
struct tpacket_auxdata {
    uint32_t tp_status, tp_len, tp_snaplen;
    uint16_t tp_mac, tp_net, tp_vlan_tci, tp_vlan_tpid;
};

/* The kernel packs this structure on x86-64 only. */
#if defined(__x86_64__)
struct __attribute__((packed)) epoll_event {
    uint32_t events;
    uint64_t data;
};
#else
struct epoll_event {
    uint32_t events;
    uint64_t data;
};
#endif
#define EPOLLIN 1
#define EPOLLERR 8
#define EPOLLET 0x80000000u
#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2
#define EPOLL_CLOEXEC 02000000
int epoll_create1(int flags);
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int epoll_wait(int epoll, struct epoll_event *events, int room, int milliseconds);
#define SYS_epoll_pwait2 441
long syscall(long number, ...);

#define EFD_CLOEXEC 02000000
#define EFD_NONBLOCK 04000
int eventfd(unsigned value, int flags);

struct itimerspec {
    struct timespec it_interval, it_value;
};
#define TFD_CLOEXEC 02000000
#define TFD_NONBLOCK 04000
#define TFD_TIMER_ABSTIME 1
int timerfd_create(int clock, int flags);
int timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *old);

typedef unsigned long pthread_t;
int pthread_create(pthread_t *thread, const void *attributes, void *(*body)(void *), void *argument);
int pthread_join(pthread_t thread, void **result);
int pthread_setname_np(pthread_t thread, const char *name);

#define PR_SET_TIMERSLACK 29
int prctl(int option, ...);

#endif
