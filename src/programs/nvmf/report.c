/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>

void nvmf_report(const char *format, ...)
{
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "iwarp-nvmf: %s\n", line); /* one write: lines of two processes do not mix */
}
