"""Sessions of a plan as JSON (`DiagnosisSession.to_json`), with hostile values."""

import copy
import json

import numpy as np

import multiform
from multiform.diagnosis import DiagnosisSession
from tests.fuzz import Case
from tests.fuzz.model_files import ESCAPES, NUMBERS, WORDS, check_chances, places

VALUES = (None, True, False, [], {}, [[]], {"a": 1}, {"sepal": {"sepal": 1}}, {"sepal": [1, 2]}, "5.1", "nan", "inf",
          "1e400", "0x10", "1_0", "٣", [1, 2, 3], {"": None}, {"observe": 1})  # fmt: skip


class Sessions:
    name = "sessions"
    weight = 1

    def prepare(self, folder):
        from tests.files import models

        plan = models.model("plan")
        multiform.save(plan, folder / "plan.mfm")
        for number in range(len(plan.order_) + 1):
            session = plan.start()
            for name in plan.order_[:number]:
                session.observe(name, 5.0, insist=True)
            (folder / f"{number}.json").write_text(session.to_json())
        session = plan.start().not_available("petal").observe("sepal", "not a number" * 0 + "5.1", insist=True)
        (folder / "unavailable.json").write_text(session.to_json())

    def open(self, folder):
        self.plan = multiform.load(folder / "plan.mfm")
        self.texts = [path.read_text() for path in sorted(folder.glob("*.json"))]

    def case(self, random):
        def pick(options):
            return options[int(random.integers(len(options)))]

        written = json.loads(pick(self.texts))
        for _ in range(int(random.integers(1, 4))):
            paths = [path for path, _ in places(written)]
            path = pick(paths)
            parent = written
            for key in path[:-1]:
                parent = parent[key]
            key = path[-1]
            match int(random.integers(6)):
                case 0 | 1 | 2:
                    value = pick((pick(NUMBERS), pick(WORDS), pick(VALUES), pick(paths), pick(("petal", "width"))))
                    parent[key] = copy.deepcopy(value)
                case 3:
                    del parent[key]
                case 4 if isinstance(parent, list):
                    parent[key : key + 1] = [parent[key]] * pick((2, 1000))
                case 4:
                    parent[pick(("observe", "not_available", "values", "sepal", ESCAPES))] = copy.deepcopy(pick(VALUES))
                case 5:
                    written["events"] = [
                        pick(
                            ({"observe": name, "values": pick((pick(NUMBERS), pick(VALUES)))}, {"not_available": name})
                        )
                        for name in random.permutation(["sepal", "petal", "width", "x"]).tolist()
                    ]
            written = json.loads(json.dumps(written))  # no part of it is there twice
            if not isinstance(written, dict) or not written:
                break
        text = json.dumps(written)
        if not random.integers(20):
            text = pick((text[: int(random.integers(len(text)))], "[" * 100_000, "{" * 10, "9" * 10_000, "null", "[]",
                         text.replace("5", "NaN"), text.replace("5", "1e999"), text.replace('"', "'")))  # fmt: skip
        return Case(text.encode("utf-8", "surrogatepass"))

    def judge(self, case, folder):
        text = case.content.decode("utf-8", "surrogatepass")
        try:
            session = DiagnosisSession.from_json(self.plan, text)
        except ValueError:
            return "refused"
        check_chances(np.array([list(session.chances.values())]), 1, len(self.plan.classes_))
        assert np.isfinite(session.spent)
        str(session)
        again = DiagnosisSession.from_json(self.plan, session.to_json())
        assert again.chances == session.chances
        assert again.spent == session.spent
        return "answered"
