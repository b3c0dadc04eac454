//! Documents that answer the application's questions: `serve` sends each by itself, and a report file holds them.

pub mod actors;
pub mod devices;
pub mod findings;
pub mod recordings;
pub mod series;
pub mod stories;
pub mod waits;

/// Any of them, for their schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
pub enum Answer {
    /// Of `/api/v1/actors`.
    Actors(actors::ActorsDocument),
    /// Of `/api/v1/devices`.
    Devices(devices::DevicesDocument),
    /// Of `/api/v1/findings`.
    Findings(findings::FindingsDocument),
    /// Of `/api/v1/heatmap`.
    Heatmap(series::HeatDocument),
    /// Of `/api/v1/ios`.
    Ios(series::IosDocument),
    /// Of `/api/v1/recordings`.
    Recordings(recordings::RecordingsDocument),
    /// Of `/api/v1/series`.
    Series(series::SeriesDocument),
    /// Of `/api/v1/stories`.
    Stories(stories::StoriesDocument),
    /// Of `/api/v1/waits`.
    Waits(waits::WaitsDocument),
}
