"""Runs the unittest classes of test_*.py in this folder, all or those named, and prints TAP. After -x the first
failure ends it."""
import importlib
import pathlib
import sys
import unittest


class Tap(unittest.TestResult):
    """One line a test, with what a failed one says above it."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def line(self, ok, test, more=""):
        self.number += 1
        name = test.id().split(".", 1)[0][5:] + ": " + (test.shortDescription() or test.id().rsplit(".", 1)[-1])
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name}{more}", flush=True)

    def bad(self, test, why):
        print("\n".join("# " + line for line in self._exc_info_to_string(why, test).splitlines()))
        self.line(False, test)

    def addSuccess(self, test):
        self.line(True, test)

    def addSkip(self, test, reason):
        self.line(True, test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad(test, err)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err:
            super().addFailure(test, err)
            print("\n".join("# " + line for line in [str(subtest), *self._exc_info_to_string(err, test).splitlines()]))

    def stopTest(self, test):
        super().stopTest(test)


def named(suite, words):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from named(test, words)
        elif not words or any(w in test.id().split(".") or "test_" + w in test.id().split(".") for w in words):
            yield test


def main(words):
    first = words[:1] == ["-x"]
    words = words[first:]
    loader, suite = unittest.TestLoader(), unittest.TestSuite()
    for path in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
        suite.addTests(loader.loadTestsFromModule(importlib.import_module(path.stem)))
    chosen, result = list(named(suite, words)), Tap()
    failed = 0
    for test in chosen:
        before, count = len(result.failures), result.number
        test.run(result)
        if len(result.failures) > before and result.number == count:  # only parts of it failed
            result.line(False, test)
        failed += len(result.failures) > before
        if failed and first:
            break
    print(f"1..{result.number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
