//! `--group` and `--mode`: read access of other users to written files.

use clap::Args;
use iolens_core::private::Access;

/// Read access of other users.
#[derive(Debug, Clone, Default, Args)]
pub struct ShareArgs {
    /// Let this group (name or number) read the written files [default: the owner only]
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    pub group: Option<u32>,
    /// Permissions of the written files, independent of the umask: 0600, 0640 or 0644; directories get matching ones
    /// [default: 0600, with --group 0640]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<u32>,
}

impl ShareArgs {
    /// Both together.
    pub fn access(&self) -> Access {
        let usual = if self.group.is_some() { 0o640 } else { 0o600 };
        Access::new(self.mode.unwrap_or(usual), self.group).unwrap_or_default()
    }
}

fn parse_mode(s: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(s, 8)
        .ok()
        .filter(|m| Access::new(*m, None).is_some());
    mode.ok_or_else(|| {
        "give 0600 (the owner alone), 0640 (its group reads too) or 0644 (all read)".to_owned()
    })
}

fn parse_group(s: &str) -> Result<u32, String> {
    if let Ok(number) = s.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    for line in groups.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [name, _, number, ..] = fields[..]
            && name == s
            && let Ok(number) = number.parse()
        {
            return Ok(number);
        }
    }
    Err("it is not in /etc/group; give its number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_may_get_read_but_never_write_access() {
        assert!(
            ["0600", "640", "0644", "604"]
                .iter()
                .all(|m| parse_mode(m).is_ok())
        );
        assert!(
            ["0660", "0666", "400", "1600", "rw", "0700", ""]
                .iter()
                .all(|m| parse_mode(m).is_err())
        );
        let share = |group, mode| ShareArgs { group, mode }.access();
        assert_eq!(share(None, None), Access::OWNER);
        assert_eq!(Some(share(Some(7), None)), Access::new(0o640, Some(7)));
        assert_eq!(
            Some(share(Some(7), Some(0o600))),
            Access::new(0o600, Some(7))
        );
        assert_eq!(parse_group("0"), Ok(0));
        assert!(parse_group("no such group").is_err());
    }
}
