# SPDX-License-Identifier: BSD-2-Clause
"""suite.py FOLDER RESULTS MODULE...: modules of pyverbs' test-suite, which is in FOLDER/tests, on
device iwarp0.  A line of RESULTS for each test: `module.Class.test<TAB>result<TAB>why`; what the
tests say goes to the standard output."""
import sys
import unittest

folder, results, *modules = sys.argv[1:]
sys.path[:0] = [folder, f"{folder}/tests"]
# A GID by number: the suite leaves those aside that end in zeros, as iWARP's do, and then all.
sys.argv[1:] = ["--dev", "iwarp0", "--gid", "0"]
import args_parser

args_parser.parser.parse_args()


class Lines(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def line(self, test, result, why=""):
        name = test.id().removeprefix("tests.")
        self.file.write(f"{name}\t{result}\t{' '.join(str(why).split())}\n")
        self.file.flush()  # tests fork

    def startTest(self, test):
        super().startTest(test)
        print(f"--- {test.id()}", flush=True)

    def addSuccess(self, test):
        self.line(test, "ok")

    def addSkip(self, test, reason):
        self.line(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "failed", err[1])

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)

    def addExpectedFailure(self, test, err):
        self.line(test, "failed", err[1])

    def addUnexpectedSuccess(self, test):
        self.line(test, "ok")


with open(results, "w", encoding="utf-8") as file:
    outcome = Lines(file)
    unittest.defaultTestLoader.loadTestsFromNames([f"tests.{m}" for m in modules]).run(outcome)
    for test, trace in outcome.failures:
        print(f"{test.id()}\n{trace}")
    file.write(f"run\t{outcome.testsRun}\t\n")
