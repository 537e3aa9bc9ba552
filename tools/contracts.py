"""What import-linter checks of us beyond its own contracts (`make lint`)."""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PrivateModulesContract(Contract):
    """No room imports a private module of another room; a room is what stands directly in the package."""

    package = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = []
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                private = any(part.startswith("_") for part in imported.split(".")[2:])
                if private and self._room(importer) != self._room(imported):
                    found.append(f"{importer} imports {imported}")
        return ContractCheck(kept=not found, metadata={"found": found})

    def _room(self, module: str) -> str:
        return module.removeprefix(f"{self.package}.").partition(".")[0]

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)
