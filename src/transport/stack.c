/* SPDX-License-Identifier: BSD-2-Clause */
/* Which stack a text names. */
#include "transport/stack.h"
#include "base/fault.h"
#include "transport/lwip/lwip.h"

#include <string.h>

enum iwarp_status iwarp_stack_open(const char *text, struct iwarp_stack **stack)
{
    if (!text || !text[0] || strcmp(text, "tcp") == 0) {
        *stack = &iwarp_tcp_stack;
        return IWARP_OK;
    }
    if (strncmp(text, "lwip:", 5) == 0) {
#ifdef IWARP_HAVE_LWIP
        return iwarp_lwip_open(text, stack);
#else
        return iwarp_fail(IWARP_TRANSPORT,
                          "\"%s\": libiwarp was built without lwIP (tools/install-packages build "
                          "brings it)",
                          text);
#endif
    }
    return iwarp_fail(IWARP_MISUSE,
                      "the transport (device option, or IWARP_TRANSPORT in the environment) is "
                      "\"%s\", expected tcp (the kernel's TCP) or lwip:...",
                      text);
}
