# SPDX-License-Identifier: MIT
"""usage: report.py BUILD_DIR. Sums up ctest's tests.xml; the last line is the summary."""

import collections
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def device(name):
    """Of test_x.cpu.inline and test_x.cuda:0 the device; of others, what they are about."""
    found = re.search(r"\.(cpu|cuda:\d+)", name)
    if found:
        return found.group(1)
    return "planted mistakes" if name.startswith("selftest_") else "the house"


def said(case):
    """What the test printed, without the lines that say nothing."""
    output = case.findtext("system-out") or ""
    return [line for line in output.splitlines() if line.strip()]


def tests_in(case):
    """A program of ours ends with "test_x cpu inline: 12 tests"; anything else is one test."""
    found = re.search(r": (\d+) tests$", (said(case) or [""])[-1])
    return int(found.group(1)) if found else 1


def main():
    path = Path(sys.argv[1]) / "tests.xml"
    if not path.exists():
        print("   ctest did not run: see test.log")
        return
    passed, skipped, failed = collections.Counter(), collections.defaultdict(list), []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "run":
            passed[device(name)] += tests_in(case)
        elif status == "fail":
            failed.append(case)
        else:
            reason = (said(case) or [status])[-1]
            skipped[re.sub(r"^(test_\w+|skipped): ", "", reason)].append(name)
    for case in failed:
        print(f"   FAILED {case.get('name')} after {float(case.get('time')):.1f} s")
        print("\n".join(f"      {line}" for line in said(case)[-60:]))
    for reason, names in skipped.items():
        listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        print(f"   skipped {len(names)}: {reason} ({listed})")
    counts = ", ".join(f"{count} on {where}" for where, count in sorted(passed.items()))
    total = sum(map(len, skipped.values()))
    print(f"   passed {counts or 'none'}; programs skipped {total}, failed {len(failed)}")


main()
