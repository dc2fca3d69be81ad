/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every bound of iwarp-cp, with its reason. Both ends check what they receive against these; none
 * of them is negotiated except the slots, and those only downwards.
 */
#ifndef CP_LIMITS_H
#define CP_LIMITS_H

#define CP_PROTOCOL_VERSION 1

/* One control message. Holds the records of a full slot, and of about 500 names of a listing. */
#define CP_MESSAGE_MAX 32768

/*
 * Slots of a transfer: registered memory of both ends that file data goes through. A transfer uses
 * CP_SLOTS_NEAR of them, and CP_SLOTS_A_MS more for each millisecond that the start-up took. That
 * is two times there and back, with TLS three, and a slot of a get is under way for two: so slots
 * of 512 KiB have room for 2 GB/s, up to some 7 ms there and back, where they are CP_SLOTS_MAX.
 */
#define CP_SLOTS_NEAR        8
#define CP_SLOTS_A_MS        4
#define CP_SLOTS_MAX         64
#define CP_SLOT_SIZE_DEFAULT (512 * 1024)
#define CP_SLOT_SIZE_MIN     4096
#define CP_SLOT_SIZE_MAX     (16 * 1024 * 1024)

/* What one transfer may make either end set aside. */
#define CP_SLOT_MEMORY_MAX (64 * 1024 * 1024)

/* What all transfers may make a server set aside for slots beyond CP_SLOTS_NEAR each. */
#define CP_FAR_MEMORY_MAX (256 * 1024 * 1024)

#define CP_NAME_MAX  255  /* octets of one component, as in Linux */
#define CP_PATH_MAX  4096 /* octets of a whole name in a request */
#define CP_DEPTH_MAX 256  /* nested directories: one descriptor each while being copied */

/* The largest record: a file with a name of CP_NAME_MAX octets. See record.c. */
#define CP_RECORD_MAX (27 + CP_NAME_MAX)

/*
 * When the places of a server are needed: how long a client may take to ask for something, how long
 * it may be idle after that, and how many octets a millisecond make up for the time that they take.
 * Data that moves at that pace is no silence at either end, however long a slot takes.
 */
#define CP_ASK_MS   2000
#define CP_GRACE_MS 10000
#define CP_PACE     8

#define CP_CONNECTIONS_DEFAULT     64
#define CP_IDLE_SECONDS_DEFAULT    60
#define CP_TIMEOUT_SECONDS_DEFAULT 30
#define CP_CONNECT_SECONDS_MAX     10

/*
 * How long the unfinished file of a process that cannot be looked up must be untouched to be taken
 * for a leftover: well above --idle and --timeout, which are a day at most.
 */
#define CP_LEFTOVER_SECONDS (7 * 86400)

/*
 * Below the first size a file is written without reserving its blocks. A larger one has reserved as
 * much again as has come, but not less than the first and not more than the second.
 */
#define CP_RESERVE_MIN  (1024 * 1024)
#define CP_RESERVE_STEP (64 * 1024 * 1024)

/* With --sync data goes to the disk in such pieces: an older end waits for the answer only so long.
 */
#define CP_SYNC_STEP (32 * 1024 * 1024)

/*
 * How long a slot is filled with further files, since the other end waits for it, and a disk may
 * take long for each of them.
 */
#define CP_FILL_MS 1000

/*
 * Files and directories of a slot. The end that carries it out says nothing meanwhile: so each may
 * take almost half a second until an older end, which knows of no pulse, gives up after
 * CP_TIMEOUT_SECONDS_DEFAULT.
 */
#define CP_SLOT_ENTRIES 64

/* How long the files of a transfer may be counted for the progress bar. */
#define CP_COUNT_MS 2000

#endif
