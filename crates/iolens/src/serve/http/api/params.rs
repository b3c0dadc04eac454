//! Parameters of a request. Parameters that the endpoint does not declare are an error.

use axum::extract::Query;
use axum::http::Uri;

use super::super::endpoint::{Endpoint, Parameter, Shape};
use super::super::problem::Problem;
use crate::engine::filter::FilterPlan;
use crate::engine::{Instant, TimeWindow, parse_instant};
use iolens_core::model::Class;

/// More repetitions of one parameter are taken to be a mistake.
const MAX_REPEATED: usize = 256;

/// The parameters of a request.
#[derive(Debug)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Parses the parameters of `uri`, which must all be declared by `endpoint`.
    ///
    /// # Errors
    /// A parameter is not declared, does not have the declared shape, or is repeated although it must not be.
    pub fn of(uri: &Uri, endpoint: &Endpoint) -> Result<Params, Problem> {
        Params::among(uri, endpoint.parameters)
    }

    fn among(uri: &Uri, known: &[Parameter]) -> Result<Params, Problem> {
        let Query(given): Query<Vec<(String, String)>> = Query::try_from_uri(uri)
            .map_err(|_| Problem::bad("the query is not name=value&name=value"))?;
        for (i, (name, value)) in given.iter().enumerate() {
            let Some(parameter) = known.iter().find(|p| p.name == name) else {
                let names: Vec<&str> = known.iter().map(|p| p.name).collect();
                return Err(Problem::bad(format!(
                    "{name}: no such parameter; there are {}",
                    names.join(", ")
                )));
            };
            let is_repeated = given[..i].iter().any(|(n, _)| n == name);
            if is_repeated && !matches!(parameter.shape, Shape::Repeated) {
                return Err(Problem::bad(format!("{name}: given twice")));
            }
            // An empty value counts as absent.
            if !value.is_empty() {
                let checked = parameter.shape.check(value);
                checked.map_err(|e| Problem::bad(format!("{name}: {e}")))?;
            }
        }
        if given.len() > MAX_REPEATED {
            return Err(Problem::bad("too many parameters"));
        }
        Ok(Params(given))
    }

    /// The value of `name`; `None` if it is absent or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, v)| n == name && !v.is_empty())
            .map(|(_, v)| v.as_str())
    }

    /// All values of `name`.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(n, v)| n == name && !v.is_empty())
            .map(|(_, v)| v.clone())
            .collect()
    }

    /// The value of `name`, converted by `parse`.
    ///
    /// # Errors
    /// `parse` fails.
    pub fn parsed<T, E: std::fmt::Display>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        self.get(name)
            .map(parse)
            .transpose()
            .map_err(|e| Problem::bad(format!("{name}: {e}")))
    }

    /// The value of `name`, which is declared as a whole number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }

    /// The value of `name`, which must be one of `names`.
    ///
    /// # Errors
    /// It is not one of `names`.
    pub fn one_of<T: Copy>(&self, name: &str, names: &[(&str, T)]) -> Result<Option<T>, Problem> {
        self.parsed(name, |s| match names.iter().find(|(n, _)| *n == s) {
            Some((_, meant)) => Ok(*meant),
            None => {
                let all: Vec<&str> = names.iter().map(|(n, _)| *n).collect();
                Err(format!("expected {}", all.join(", ")))
            }
        })
    }

    /// The value of `name` as a time.
    ///
    /// # Errors
    /// It is not a time.
    pub fn time(&self, name: &str) -> Result<Option<Instant>, Problem> {
        // A server records until now, so a time of day means the newest match. A plus sign in a zone's offset arrives
        // as a space unless the client encoded it.
        self.parsed(name, |s| {
            parse_instant(&if s.contains('T') {
                s.replace(' ', "+")
            } else {
                s.to_owned()
            })
            .map(Instant::until_now)
        })
    }

    /// The selected class of I/O.
    ///
    /// # Errors
    /// It is not a class.
    fn class(&self) -> Result<Option<Class>, Problem> {
        let classes = Class::ALL.map(|class| (class.name(), class));
        self.one_of("class", &classes)
    }

    /// The selected I/Os.
    ///
    /// # Errors
    /// The class is invalid.
    pub fn selection(&self) -> Result<FilterPlan, Problem> {
        Ok(FilterPlan {
            process: self.get("process").map(str::to_owned),
            cgroup: self.get("cgroup").map(str::to_owned),
            file: self.get("file").map(str::to_owned),
            class: self.class()?,
        })
    }

    /// The window from `from` and `to`, or from `at`. If none is given, [`crate::engine::query::Query::or_latest`]
    /// applies.
    ///
    /// # Errors
    /// A value is not a time, or the parameters exclude each other.
    pub fn window(&self) -> Result<TimeWindow, Problem> {
        let at = self.time("at")?;
        let from = self.time("from")?;
        let to = self.time("to")?;
        if at.is_some() && (from.is_some() || to.is_some()) {
            return Err(Problem::bad("at: give a moment, or from and to"));
        }
        Ok(TimeWindow { at, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::endpoint::{AT, CLASS, CLASS_NAMES, DEVICE, FROM, TO};
    use super::*;

    fn params(query: &str) -> Result<Params, Problem> {
        const LIMIT: Parameter = Parameter {
            name: "limit",
            shape: Shape::Number(1, 9),
            description: "",
        };
        Params::among(
            &format!("/x?{query}").parse().expect("a target"),
            &[FROM, TO, AT, DEVICE, CLASS, LIMIT],
        )
    }

    fn refusal(found: Result<impl Sized, Problem>) -> String {
        found.map(drop).expect_err("refused").detail().to_owned()
    }

    #[test]
    fn what_a_path_does_not_take_is_refused_with_what_it_takes() {
        assert!(
            refusal(params("form=-5m")).contains("form: no such parameter; there are from, to")
        );
        assert!(refusal(params("from=1&from=2")).contains("given twice"));
        assert_eq!(
            params("device=a&device=b").expect("may").all("device"),
            ["a", "b"]
        );
        let many = vec!["device=a"; 300].join("&");
        assert!(refusal(params(&many)).contains("too many"));
    }

    #[test]
    fn all_classes_are_declared() {
        assert_eq!(CLASS_NAMES, Class::ALL.map(Class::name));
    }

    #[test]
    fn values_are_read_or_refused_with_what_would_do() {
        let p = params("limit=7&from=2026-11-21T05:48:00+01:00").expect("fine");
        assert_eq!(p.number("limit"), Some(7));
        for beyond in ["0", "10", "-1", "1.5", "x", "99999999999"] {
            let said = refusal(params(&format!("limit={beyond}")));
            assert_eq!(said, "limit: expected a number from 1 to 9", "{beyond}");
        }
        let said = refusal(params("class=moon"));
        assert_eq!(said, "class: expected read, write, discard, flush");
        assert_eq!(params("limit=&class=").expect("fine").number("limit"), None);
        assert!(
            matches!(p.time("from"), Ok(Some(Instant::Wall(_)))),
            "a zone's plus that was not encoded"
        );
        assert!(
            refusal(params("from=yesterday").expect("fine").window()).starts_with("from: expected")
        );
        assert!(refusal(params("at=now&to=now").expect("fine").window()).contains("from and to"));
    }
}
