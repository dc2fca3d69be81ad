/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers of the standards, as far as the target has a use for them: NVM Express base 1.4, NVMe
 * over Fabrics 1.1, its RDMA transport. "Base" and "Fabrics" in comments mean these two.
 * Authentication is that of NVM Express base 2.0.
 */
#ifndef NVMF_NVME_H
#define NVMF_NVME_H

#define NVMF_COMMAND_LEN  64 /* a command, Base 4.2 */
#define NVMF_RESPONSE_LEN 16 /* a completion queue entry, Base 4.6 */
#define NVMF_PAGE         4096
#define NVMF_IDENTIFY_LEN 4096
#define NVMF_NQN_MAX      223
#define NVMF_CONNECT_LEN  1024
#define NVMF_PRIVATE_LEN  32 /* of the RDMA transport's Request and Reply */
#define NVMF_NSID_ALL     0xffffffffu
#define NVMF_DISCOVERY    "nqn.2014-08.org.nvmexpress.discovery"
#define NVMF_VERSION      0x00010400u

/* What this target offers. */
#define NVMF_QUEUE_DEPTH  128  /* commands under way in a queue: CAP.MQES is one less */
#define NVMF_QUEUES       64   /* I/O queues of a controller, at most */
#define NVMF_ADMIN_MIN    32   /* entries of an admin queue, Fabrics 3.3 */
#define NVMF_IN_CAPSULE   8192 /* octets of data within a command capsule */
#define NVMF_MDTS         8    /* 2^8 pages: a command moves at most 1 MiB */
#define NVMF_TRANSFER_MAX ((uint32_t)NVMF_PAGE << NVMF_MDTS)
#define NVMF_AERS         4 /* Asynchronous Event Requests that wait */
#define NVMF_ERRORS       16
#define NVMF_KAS_MS       1000 /* what Keep Alive is counted in */

enum nvmf_admin_opcode {
    NVMF_GET_LOG_PAGE = 0x02,
    NVMF_IDENTIFY = 0x06,
    NVMF_ABORT = 0x08,
    NVMF_SET_FEATURES = 0x09,
    NVMF_GET_FEATURES = 0x0a,
    NVMF_ASYNC_EVENT = 0x0c,
    NVMF_KEEP_ALIVE = 0x18,
    NVMF_FABRICS = 0x7f
};

enum nvmf_io_opcode {
    NVMF_FLUSH = 0x00,
    NVMF_WRITE = 0x01,
    NVMF_READ = 0x02,
    NVMF_COMPARE = 0x05,
    NVMF_WRITE_ZEROES = 0x08,
    NVMF_DATASET = 0x09,
    NVMF_VERIFY = 0x0c
};

enum nvmf_fabrics_type {
    NVMF_PROPERTY_SET = 0,
    NVMF_CONNECT = 1,
    NVMF_PROPERTY_GET = 4,
    NVMF_AUTH_SEND = 5,
    NVMF_AUTH_RECEIVE = 6
};

/* Status code type in bits 8 to 10, status code below, Base 4.6.1. */
enum nvmf_status {
    NVMF_OK = 0,
    NVMF_INVALID_OPCODE = 0x01,
    NVMF_INVALID_FIELD = 0x02,
    NVMF_TRANSFER_ERROR = 0x04,
    NVMF_INTERNAL = 0x06,
    NVMF_ABORTED = 0x07,
    NVMF_INVALID_NAMESPACE = 0x0b,
    NVMF_SEQUENCE = 0x0c,
    NVMF_SGL_LENGTH = 0x0f,
    NVMF_SGL_TYPE = 0x11,
    NVMF_SGL_OFFSET = 0x16,
    NVMF_WRITE_PROTECTED = 0x20,
    NVMF_LBA_RANGE = 0x80,
    NVMF_CAPACITY = 0x81,
    NVMF_AER_LIMIT = 0x105,
    NVMF_INVALID_LOG = 0x109,
    NVMF_NOT_SAVEABLE = 0x10d,
    NVMF_NOT_CHANGEABLE = 0x10e,
    NVMF_CONNECT_FORMAT = 0x180,
    NVMF_CONNECT_BUSY = 0x181,
    NVMF_CONNECT_PARAMETER = 0x182,
    NVMF_CONNECT_HOST = 0x184,
    NVMF_AUTH_REQUIRED = 0x191,
    NVMF_MEDIA = 0x200, /* the type: media and data integrity errors */
    NVMF_STATUS_TYPE = 0x700,
    NVMF_WRITE_FAULT = 0x280,
    NVMF_READ_ERROR = 0x281,
    NVMF_COMPARE_FAILED = 0x285,
    NVMF_MORE = 0x2000, /* the error log has more */
    NVMF_DNR = 0x4000   /* do not retry */
};

/* Why a Request of the RDMA transport is rejected, Fabrics 7.3.4. */
enum nvmf_reject {
    NVMF_REJECT_LENGTH = 1,
    NVMF_REJECT_FORMAT,
    NVMF_REJECT_QID,
    NVMF_REJECT_HSQSIZE,
    NVMF_REJECT_HRQSIZE,
    NVMF_REJECT_RESOURCES
};

enum nvmf_property {
    NVMF_CAP = 0x00,
    NVMF_VS = 0x08,
    NVMF_CC = 0x14,
    NVMF_CSTS = 0x1c,
    NVMF_NSSR = 0x20
};

enum nvmf_feature {
    NVMF_FEATURE_ARBITRATION = 0x01,
    NVMF_FEATURE_POWER = 0x02,
    NVMF_FEATURE_RECOVERY = 0x05,
    NVMF_FEATURE_CACHE = 0x06,
    NVMF_FEATURE_QUEUES = 0x07,
    NVMF_FEATURE_ATOMICITY = 0x0a,
    NVMF_FEATURE_EVENTS = 0x0b,
    NVMF_FEATURE_KATO = 0x0f,
    NVMF_FEATURE_HOST_ID = 0x81
};

enum nvmf_log {
    NVMF_LOG_ERROR = 0x01,
    NVMF_LOG_SMART = 0x02,
    NVMF_LOG_FIRMWARE = 0x03,
    NVMF_LOG_CHANGED = 0x04,
    NVMF_LOG_EFFECTS = 0x05,
    NVMF_LOG_DISCOVERY = 0x70
};

/* Bits of the feature "asynchronous event configuration", and of the field OAES. */
#define NVMF_NOTICE_NAMESPACE 0x00000100u
#define NVMF_NOTICE_DISCOVERY 0x80000000u

#endif
