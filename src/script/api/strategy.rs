//! Building blocks of strategies: branches, phases, loops, votes, stops.

use super::{Function, Kind, Param, optional, required};

const MAP: &[Param] = &[optional("width", Kind::Integer(1, 1000), "How many branches run at once; all by default.")];
const ROUNDS: &[Param] = &[
    optional("max", Kind::Integer(1, 1_000_000), "The most rounds."),
    optional("reserve", Kind::Seconds, "Stop when less time than this is left."),
    optional("min_budget", Kind::Dollars, "Stop when less money than this is left."),
];
const PHASES: &[Param] = &[
    optional("stop_on_failure", Kind::Boolean, "Stop after a phase whose session was not ok (false)."),
    optional("timeout", Kind::Seconds, "Limit of phases that have none of their own."),
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        module: "parallel",
        name: "map",
        params: &[
            required("list", Kind::List, "What to work on."),
            required("fn", Kind::Function, "Called as `fn(item, i)`, one branch an item."),
            optional("options", Kind::Options(MAP), "`width`."),
        ],
        returns: "{any}",
        doc: "Calls a function for each item, all at the same time, and returns the results in order. The only concurrency \
              there is. Every branch runs to its end; then the error of the first branch that failed is raised.",
        example: "local reviews = parallel.map({ \"security\", \"style\" }, function(topic)\n  return session(\"Review for \" .. topic, { role = \"review\" }).text\nend)",
    },
    Function {
        module: "phases",
        name: "run",
        params: &[optional("options", Kind::Options(PHASES), "`stop_on_failure`, `timeout`.")],
        returns: "{Session}",
        doc: "Holds one session for each phase of the task, with its role, its limit and its input, and returns the results.",
        example: "local results = phases.run()",
    },
    Function {
        module: "phases",
        name: "compose",
        params: &[
            required("phase", Kind::Table, "One of `task.phases`."),
            required("done", Kind::List, "Results of the phases before it, in order."),
        ],
        returns: "string",
        doc: "Composes the prompt of a phase with its input: the diff, the last message, or the latest review.",
        example: "local text = phases.compose(task.phases[2], { first })",
    },
    Function {
        module: "loop",
        name: "rounds",
        params: &[optional("options", Kind::Options(ROUNDS), "`max`, `reserve`, `min_budget`.")],
        returns: "() -> number?",
        doc: "Counts rounds until a bound is reached: number of rounds, time left, money left.",
        example: "for round in loop.rounds({ max = 5, reserve = 60 }) do\n  if session(task.prompt).ok then break end\nend",
    },
    Function {
        module: "vote",
        name: "majority",
        params: &[
            required("list", Kind::List, "Votes, or things that vote."),
            optional("key", Kind::Function, "Gives the vote of an item; the item itself by default."),
        ],
        returns: "any, number",
        doc: "Returns the most frequent vote and how often it came; among equals the one that came first. Nil votes do not count.",
        example: "local answer, count = vote.majority(sessions, function(s) return s.text end)",
    },
    Function {
        module: "vote",
        name: "best",
        params: &[
            required("list", Kind::List, "Candidates."),
            required("score", Kind::Function, "Gives a number for `(item, i)`; nil or NaN leaves the item out."),
        ],
        returns: "any, number?, number?",
        doc: "Returns the item with the highest score, its position and its score; among equals the first. Nil where none has a score.",
        example: "local report, i = vote.best(reports, function(r) return r.passed end)",
    },
    Function {
        module: "stop",
        name: "kind",
        params: &[required("err", Kind::Any, "What `pcall` returned.")],
        returns: "string?",
        doc: "Tells what kind of stop an error is: `budget`, `sessions` or another limit, `misuse`, or nil for any other error. \
              Deadline and cancellation end the script and are never seen.",
        example: "local ok, err = pcall(session, task.prompt)\nif not ok and stop.kind(err) ~= \"budget\" then error(err, 0) end",
    },
];
