# SPDX-License-Identifier: MIT
"""Writes the pages of the reference for Sphinx: of every header, function, class and module, the guides, and the
sources that they link. A public function without an example is an error.

usage: pages.py FOLDER       for pages; needs the package gpureplay, whose names it reads
"""

import importlib
import inspect
import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.ext.autodoc.mock import mock

import calls
import headers
import plain

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/python/gpureplay"
MODULES = ("gpureplay", *(f"gpureplay.{path.stem}" for path in sorted(PACKAGE.glob("[a-z]*.py"))))
# What modules import, for which Sphinx has mocks.
NOT_NEEDED = ["h5py", "matplotlib", "minari", "pyarrow", "ray", "stable_baselines3", "tensorboard", "torch"]
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".sh": "bash", ".yaml": "yaml", ".cmake": "cmake", ".cc": "cpp"}


INDEX = """\
libgpureplay
============

.. toctree::
   :maxdepth: 1

   README
   c/index
   python/index
   examples

.. toctree::
   :maxdepth: 1
   :caption: Notebooks
   :glob:

   examples/notebooks/*

.. toctree::
   :maxdepth: 1
   :caption: Guides
   :glob:

   docs/*

.. toctree::
   :maxdepth: 1
   :caption: Results
   :glob:

   bench/results/*

""".splitlines()


# Names that become links.


def roles():
    """The link of each header and of each name that the headers declare: {"gpur_writer_step":
    ":c:func:`gpur_writer_step`", ...}."""
    found = {}
    for header in headers.all_headers():
        found[header] = found[header.removeprefix("gpureplay/")] = f":doc:`{header} <{page_of_header(header)}>`"
        for one in headers.read(header)[1]:
            kind = {"function": "func", "plug-in": "func", "struct": "struct", "define": "macro"}.get(one.kind, "type")
            if one.name:
                found[one.name] = f":c:{kind}:`{one.name}`"
            for declaration, *_ in one.members:
                if one.kind == "enum":
                    found[declaration] = f":c:enumerator:`{declaration}`"
                for name in member_names(declaration) if one.kind == "struct" else ():
                    found[f"{one.name}.{name}"] = f":c:member:`{one.name}.{name}`"
    for guide in calls.GUIDES:
        found[guide] = f":doc:`{guide} </{guide.removesuffix('.md')}>`"
    return found


def member_names(declaration):
    """ ["low", "high"] of "float low, high"."""
    function = re.search(r"\(\*(\w+)\)\(", declaration)
    return [function[1]] if function else [re.search(r"(\w+)(?:\[\w+\])*$", part)[1]
                                           for part in declaration.split(",")]


def page_of_header(header):
    return f"/c/{Path(header).stem}"


def first_sentence(comment):
    return re.split(r"(?<=[^.]\.)\s", " ".join(comment.split("\n\n")[0].split()), maxsplit=1)[0]


# What the package has.


def is_ours(value):
    return (getattr(value, "__module__", None) or "").startswith("gpureplay")


def public_names(module):
    """What `from module import *` gives, or what is defined in it and has a public name."""
    listed = getattr(module, "__all__", None)
    return sorted(listed or (name for name, value in vars(module).items() if not name.startswith("_")
                             and callable(value) and getattr(value, "__module__", "") == module.__name__))


def members_of(owner, of_kind):
    """What a class or its bases in the package define, in alphabetical order."""
    bases = [base for base in owner.__mro__ if is_ours(base)]
    return [name for name in dir(owner) if not name.startswith("_") and of_kind(inspect.getattr_static(owner, name))
            and any(name in vars(base) for base in bases)]


def is_method(value):
    return inspect.isroutine(value) or isinstance(value, (classmethod, staticmethod))


def is_property(value):
    return isinstance(value, property)


def overrides(owner, name):
    """Whether a method takes the place of another library's, which calls it."""
    return owner is not None and any(name in vars(base) for base in owner.__mro__ if not is_ours(base))


def code_of(value):
    """The code in a docstring."""
    return [piece for piece in plain.pieces(inspect.getdoc(value) or "")
            if isinstance(piece, str) and plain.language_of(piece) == "python"]


def module_of(dotted):
    return max((module for module in MODULES if f"{dotted}.".startswith(f"{module}.")), key=len)


class Package:
    """The modules, and the names in them that docstrings may link."""

    def __init__(self):
        self.modules, self.things = {}, {}
        for name in MODULES:
            with mock(NOT_NEEDED):
                self.modules[name] = module = importlib.import_module(name)
            self.things |= {(name, one): getattr(module, one) for one in public_names(module)}
        for (name, one), value in self.things.items():  # `train` has become the module of that name
            setattr(self.modules[name], one, value)
        self.classes = frozenset(one for (_, one), value in self.things.items() if inspect.isclass(value))
        self.names = {}
        for (module, one), value in self.things.items():
            self.names.setdefault(one, f"{module}.{one}")
            self.names[f"{module}.{one}"] = f"{module}.{one}"
            for kind in (is_method, is_property) if inspect.isclass(value) else ():
                for member in members_of(value, kind):
                    self.names.setdefault(f"{one}.{member}", f"{module}.{one}.{member}")

    def giving(self, name):
        """Links to what returns a class: functions, methods and properties, by their annotations."""
        word, found = re.compile(rf"\b{name}\b"), {}
        for (module, one), value in self.things.items():
            members = [(one, value)] if not inspect.isclass(value) else [
                (f"{one}.{member}", inspect.getattr_static(value, member))
                for kind in (is_method, is_property) for member in members_of(value, kind)]
            for dotted, member in members:
                function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", None) or member)
                if word.search(str(getattr(function, "__annotations__", {}).get("return", ""))):
                    found.setdefault(function, f":py:obj:`{dotted} <{module}.{dotted}>`")
        return list(found.values())

    def link_to_docstring(self, dotted):
        """Of "gpureplay.Learner.save", where DQN has that method."""
        module = module_of(dotted)
        owner, _, member = dotted.removeprefix(module).lstrip(".").rpartition(".")
        for name in (dotted, f"{module}.{member}"):
            if name in self.modules or name in self.names:
                return f":py:obj:`{name.removeprefix('gpureplay.')} <{name}>`"
        for (of_module, one), value in self.things.items():
            if inspect.isclass(value) and any(base.__name__ == owner for base in value.__mro__ if is_ours(base)):
                return f":py:obj:`{one}.{member} <{of_module}.{one}.{member}>`"
        raise LookupError(f"no public name has the docstring of {dotted}")

    def having(self, kind, name):
        """The names of the classes that have a class's method, that one first."""
        method = inspect.getattr_static(kind, name, None)
        others = [calls.class_name(one) for one in self.things.values() if inspect.isclass(one) and one is not kind
                  and method is not None and inspect.getattr_static(one, name, None) is method]
        return [calls.class_name(kind), *others]

    def link(self, name, owner=None):
        found = self.names.get(f"{owner}.{name}") or self.names.get(name)
        return f":py:obj:`{name} <{found}>`" if found else None


# Pages.


class Pages:
    def __init__(self, folder):
        self.folder, self.linked, self.uncalled = Path(folder), set(), []
        self.roles, self.package = roles(), Package()

    def write(self, name, lines):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def link(self, name, owner=None):
        """Of a name in a docstring. owner: the class that it describes."""
        return self.package.link(name, owner) or self.roles.get(name.removeprefix("include/"))

    def text(self, comment, but=None):
        """A comment as reStructuredText. but: the name that it is about, which needs no link."""
        return plain.restructured(comment, lambda name: None if name == but else self.roles.get(name))

    # Examples.

    def link_to(self, call, up):
        """To a guide, to the page of a comment, or to the line of a source. up: from the page's folder to the first
        one."""
        if call.file in calls.GUIDES or call.file in self.roles:
            return self.roles[call.file]
        if calls.is_comment(call.file):
            return self.package.link_to_docstring(call.file)
        if call.file.endswith(".ipynb"):
            return f":doc:`{call.file} </{call.file}>`"
        self.linked.add(call.file)
        return f"`{call.file} <{up}sources/{call.file}.html#line-{call.line}>`__"

    def example(self, called, up):
        """The first call of all, and where the others are, if those are examples or guides."""
        first, *others = called
        place = f"Used in the test ``{first.test}`` of" if first.test else "From"
        lines = [f"{place} {self.link_to(first, up)}:", "", f".. code-block:: {first.language}", ""]
        lines += [f"   {line}".rstrip() for line in first.text.splitlines()] + [""]
        return [*lines, *self.also(others, up)]

    def also(self, others, up):
        others = [self.link_to(one, up) for one in others if calls.is_example(one)][:6]
        return [f"Also in {', '.join(others)}.", ""] if others else []

    # C.

    def function_in_c(self, header, one):
        name = re.compile(rf"\b{one.name}\(")
        shown = any(map(name.search, plain.code_in_c(one.comment)))  # in its own comment
        called = [call for call in calls.in_c(one.name)
                  if calls.is_example(call) and not (shown and call.text in plain.code_in_c(one.comment))]
        if not called and not shown:
            self.uncalled.append(one.name)
        signature = " ".join(one.code.removeprefix("GPUR_API ").removesuffix(";").split())
        lines = [one.name, "=" * len(one.name), "", f".. c:function:: {signature}", ""]
        lines += [f"   {line}" for line in self.text(one.comment, one.name)]
        lines += ["", f"Declared in {self.roles[header]}.", ""]
        if shown:
            lines += self.also(called, "../")
        elif called:
            lines += ["Example", "-------", "", *self.example(called, "../")]
        self.write(f"c/{one.name}.rst", lines)

    def members(self, one):
        for declaration, *value, comment in one.members:
            directive = f".. c:enumerator:: {declaration} = {value[0]}" if value else f".. c:member:: {declaration}"
            parts = [directive]
            if not value and "(*" not in declaration and "," in declaration:
                kind, names = re.fullmatch(r"((?:const )?\w+ )(.*)", declaration).groups()
                first, *others = names.split(", ")
                parts = [f".. c:member:: {kind}{first}", *(f"              {kind}{name}" for name in others)]
            yield from [*parts, "", *(f"   {line}" for line in self.text(comment)), ""]

    def declaration(self, one):
        comment = self.text(one.comment, one.name)
        if one.kind in ("text", "enum"):
            return [*comment, *self.members(one)]
        if one.kind == "define":
            return [*comment, f".. c:macro:: {one.name}", ""]
        code = " ".join(one.code.removesuffix(";").split())
        inner = [*comment, *(self.members(one) if one.kind == "struct" else ())]
        title = f".. c:struct:: {one.name}" if one.kind == "struct" else \
            f".. c:type:: {one.name}" if code.startswith("typedef struct") else \
            f".. c:type:: {code.removeprefix('typedef ')}"
        return [title, "", *(f"   {line}" for line in inner), ""]

    def header(self, header):
        comment, declared = headers.read(header)
        functions = [one for one in declared if one.kind in ("function", "plug-in")]
        lines = [header, "=" * len(header), "", *self.text(comment)]
        others = [one for one in declared if one not in functions]
        if others:
            lines += ["Types and constants", "-------------------", ""]
        for one in others:
            lines += self.declaration(one)
        if functions:
            lines += ["Functions", "---------", ""]
        for one in functions:
            self.function_in_c(header, one)
            lines += [f":c:func:`{one.name}`", f"   {plain.inline(first_sentence(one.comment), self.roles.get)}", ""]
        lines += [".. toctree::", "   :hidden:", "", *(f"   {one.name}" for one in functions)]
        self.write(f"c/{Path(header).stem}.rst", lines)

    def c(self):
        lines = ["The C library", "=============", "", ".. toctree::", "   :hidden:", ""]
        lines += [*(f"   {Path(header).stem}" for header in headers.all_headers()), ""]
        for door in ("gpureplay.h", "gpureplay/run.h"):
            lines += [door, "-" * len(door), "", *self.text(headers.read(door)[0])]
        for header in headers.all_headers():
            self.header(header)
        self.write("c/index.rst", lines)

    # Python.

    def calls_of(self, name, kind=None):
        """Calls of a function, or of a method of a class or of those that have it in common, examples first: where an
        expression tells the class, and else where the file names it."""
        found = calls.by_name_in_python(self.package.classes)
        kinds = self.package.having(kind, name) if kind else [None]
        certain = [call for one in kinds for call in found.get((one, name), [])]
        word = re.compile(rf"\b{kind.__name__ if kind else 'gpureplay'}\b")
        return sorted(certain, key=lambda call: not calls.is_example(call)) or [
            call for call in found.get((None, name), []) if word.search(
                call.file if calls.is_comment(call.file) else (ROOT / call.file).read_text(encoding="utf-8"))]

    def example_in_python(self, dotted):
        """What the docstring of a function, or of a method of a class, ends with."""
        owner, _, name = dotted.rpartition(".")
        things = {f"{module}.{one}": value for (module, one), value in self.package.things.items()}
        kind = None if dotted in things else things[owner]
        value = inspect.unwrap(getattr(kind, name) if kind else things[dotted])
        return self.example_beside(value, self.calls_of(name, kind), dotted, overrides(kind, name))

    def example_of_class(self, dotted, name, value):
        """Of one that only functions make, these."""
        called = self.calls_of(name)
        if name in calls.TWICE:
            called = [call for call in called if ("sb3" in call.text) == (value.__module__ == "gpureplay.sb3")]
        given = [] if any(map(calls.is_example, called)) else self.package.giving(name)
        if given and not code_of(value):
            return ["", f"Given by {', '.join(given)}.", ""]
        return self.example_beside(value, called, dotted, False)

    def example_beside(self, value, called, dotted, needs_none):
        """The example of a function or class, unless its own docstring has one."""
        code, name = code_of(value), re.compile(rf"\b{dotted.rpartition('.')[2]}\b")
        has_one = bool(code) if inspect.isclass(value) else any(map(name.search, code)) or any(
            call.text in code for call in called)
        called = [call for call in called if call.text not in code]
        if has_one:
            return ["", *self.also(called, "../../")]
        if not called and not needs_none:
            self.uncalled.append(dotted)
        return ["", *self.example(called, "../../")] if called else []

    def python(self):
        self.write("python/index.rst", ["The Python package", "==================", "",
                                        *self.docstring(self.package.modules["gpureplay"]), ".. toctree::",
                                        "   :hidden:", "", *(f"   {name}" for name in MODULES)])
        for name, module in self.package.modules.items():
            names = public_names(module)
            lines = [name, "=" * len(name), "", f".. py:module:: {name}"]
            lines += ["   :no-index:", ""] if name in self.package.names else [""]  # a function has this name, too
            lines += self.docstring(module) if name != "gpureplay" else []
            for one in names:
                value = self.package.things[name, one]
                lines += [f":py:obj:`{one} <{name}.{one}>`",
                          f"   {plain.inline(first_sentence(inspect.getdoc(value) or ''), self.link)}", ""]
                self.thing(name, one, value)
            self.write(f"python/{name}.rst", [*lines, ".. toctree::", "   :hidden:", "",
                                              *(f"   {name}/{one}" for one in names)])

    def docstring(self, module):
        return plain.restructured(inspect.getdoc(module), self.link)

    def thing(self, module, name, value):
        dotted = f"{module}.{name}"
        lines = [name, "=" * len(name), "", f".. py:currentmodule:: {module}", ""]
        if not inspect.isclass(value):
            self.example_in_python(dotted)
            lines += [f".. autofunction:: {dotted}"]
        elif issubclass(value, Exception):
            self.example_of_class(dotted, name, value)
            lines += [f".. autoexception:: {dotted}"]
        else:
            self.example_of_class(dotted, name, value)
            methods, properties = members_of(value, is_method), members_of(value, is_property)
            for method in methods:
                self.example_in_python(f"{dotted}.{method}")
            lines += [f".. autoclass:: {dotted}", f"   :members: {', '.join(methods + properties)}" * bool(
                methods or properties)]
        self.write(f"python/{module}/{name}.rst", lines)

    # Guides and sources.

    def guide(self, file):
        """A guide with links to pages in the place of those to files that are no guides."""
        folder = (ROOT / file).parent

        def page(found):
            target, _, part = found[2].partition("#")
            path = Path(os.path.normpath(folder / target)).relative_to(ROOT)
            if not target or re.match(r"\w+:", target) or path.suffix in (".md", ".png"):
                return found[0]
            if path.suffix == ".ipynb":
                return f"{found[1]}(/{path}.md)"
            if path.parts[0] == "include":
                known = path.suffix == ".h" and page_of_header(path.name) or "/c/index"
            elif (ROOT / path).is_dir():
                known = "/examples"
            else:
                self.linked.add(str(path))
                known = f"/sources/{path}"
            return f"{found[1]}({known}.rst)"

        text = (ROOT / file).read_text(encoding="utf-8")
        self.write(file, [re.sub(r"(\])\(([^)\s]+)\)", page, text)])
        for picture in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text):
            self.copy(os.path.normpath(folder / picture))

    def notebook(self, file):
        parts = [part for is_code, text, shown in calls.cells_of(file) for part in (
            (f"```python\n{text}\n```", f"```none\n{shown}\n```" * bool(shown)) if is_code else (text,))]
        self.write(f"{file}.md", ["\n\n".join(parts)])

    def copy(self, path):
        target = self.folder / Path(path).relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)

    def source(self, file):
        text = (ROOT / file).read_text(encoding="utf-8")
        lines = [":nosearch:", ":orphan:", "", file, "=" * len(file), "",
                 f".. code-block:: {LANGUAGES.get(Path(file).suffix, 'none')}", "   :linenos:", ""]
        self.write(f"sources/{file}.rst", [*lines, *(f"   {line}".rstrip() for line in text.splitlines())])


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    pages = Pages(folder)
    pages.c()
    pages.python()
    results = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "bench/results").glob("*.md"))
    for file in (*calls.GUIDES, *results):
        pages.guide(file)
    for file in calls.notebooks():
        pages.notebook(file)
    examples = [one.file for patterns in (["examples/*.c", "examples/python/*.py"],) for one in calls.files(patterns)]
    for file in sorted({*pages.linked, *examples}):
        pages.source(file)
    pages.write("index.rst", INDEX)
    pages.write("examples.rst", ["Examples", "========", "", *(f"- :doc:`{one} </sources/{one}>`" for one in examples)])
    if pages.uncalled:
        sys.exit(f"public names without an example: {', '.join(pages.uncalled)}")


if __name__ == "__main__":
    main(sys.argv[1])
