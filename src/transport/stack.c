/* SPDX-License-Identifier: BSD-2-Clause */
/* Which stack a text names. */
#include "transport/stack.h"
#include "base/fault.h"

#include <string.h>

enum iwarp_status iwarp_stack_open(const char *text, struct iwarp_stack **stack)
{
    if (!text || !text[0] || strcmp(text, "tcp") == 0) {
        *stack = &iwarp_tcp_stack;
        return IWARP_OK;
    }
    return iwarp_fail(IWARP_MISUSE,
                      "the transport (device option, or IWARP_TRANSPORT in the environment) is "
                      "\"%s\", expected tcp (the kernel's TCP)",
                      text);
}
