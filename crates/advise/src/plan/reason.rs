//! Reasons to leave something alone.

use std::fmt;

use super::policy::Variable;
use crate::family::PlanName;

/// Reason to leave something alone, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The variable is as the policy wants it.
    Unchanged(Variable),
    /// A reason that concerns one variable.
    Of(Variable, String),
    /// Variables that are left alone together, although the policy would change them.
    LeftAlone(Vec<Variable>, String),
    /// Any other reason.
    Other(String),
}

impl Reason {
    /// Its text, without the name of the variable.
    pub fn text(&self) -> &str {
        match self {
            Reason::Unchanged(_) => "nothing to change",
            Reason::Of(_, why) | Reason::LeftAlone(_, why) | Reason::Other(why) => why,
        }
    }

    /// True if it may be the reason why there is no such plan of the spreading planner.
    pub(crate) fn concerns(&self, name: PlanName) -> bool {
        match self {
            Reason::Of(Variable::Rps, _) => name != PlanName::Rfs,
            Reason::Of(Variable::Rfs, _) => name != PlanName::Rps,
            _ => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unchanged(variable) | Reason::Of(variable, _) => write!(f, "{variable}: {}", self.text()),
            Reason::LeftAlone(variables, why) => {
                let names: Vec<String> = variables.iter().map(Variable::to_string).collect();
                write!(f, "{}: left alone: {why}", names.join(", "))
            }
            Reason::Other(why) => f.write_str(why),
        }
    }
}

impl From<String> for Reason {
    fn from(why: String) -> Self {
        Reason::Other(why)
    }
}
