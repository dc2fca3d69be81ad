/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads as lwIP asks for them: one thread with its box of messages, and the core lock. */
#ifndef IWARP_LWIP_OWN_ARCH_SYS_ARCH_H
#define IWARP_LWIP_OWN_ARCH_SYS_ARCH_H

#include <pthread.h>
#include <stdbool.h>

struct iwarp_lw_box;

typedef struct iwarp_lw_box *sys_mbox_t;
typedef pthread_mutex_t sys_mutex_t;
typedef pthread_t sys_thread_t;
typedef int sys_sem_t; /* none is ever made */

#define SYS_MBOX_NULL              NULL
#define sys_mbox_valid(mbox)       (*(mbox) != NULL)
#define sys_mbox_set_invalid(mbox) (*(mbox) = NULL)
#define sys_mutex_valid(mutex)     true
#define sys_mutex_set_invalid(mutex)
#define sys_sem_valid(sem) false
#define sys_sem_set_invalid(sem)

#endif
