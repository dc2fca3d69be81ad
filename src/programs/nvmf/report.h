/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of the log, on standard error, for whoever runs the target.
 */
#ifndef NVMF_REPORT_H
#define NVMF_REPORT_H

/* One line, without its line feed. */
void nvmf_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
