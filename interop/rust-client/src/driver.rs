//! Executes commands.

use std::time::Duration;

use relive::blocking::{Client, Sampler, StructuredWriter, TrajectoryWriter};
use relive::{ClientOptions, Codec, Column, Error, Nest, SamplerOptions, Tensor, TrajectoryWriterOptions};
use serde_json::{Value, json};

use crate::answer;
use crate::command::{ColumnChoice, Command, ReaderOptions};
use crate::failure::Failure;
use crate::pattern::PatternConfig;

type Outcome = Result<Value, Failure>;

/// The state between two commands.
#[derive(Default)]
pub(crate) struct Driver {
    writer: Option<Writer>,
    sampler: Option<Sampler>,
    // Dropped last, because the other fields need its runtime until they have ended.
    client: Option<Client>,
}

enum Writer {
    Trajectory(TrajectoryWriter),
    Structured(StructuredWriter),
}

impl Driver {
    pub(crate) fn carry_out(&mut self, command: Command) -> Outcome {
        match command {
            Command::Connect { address, timeout_ms } => self.connect(&address, timeout_ms),
            Command::Insert { step, priorities } => {
                let priorities: Vec<(&str, f64)> =
                    priorities.iter().map(|(name, p)| (name.as_str(), *p)).collect();
                done(self.client()?.insert(&step.nest()?, &priorities))
            }
            Command::Sample { table, count, timeout_ms } => {
                let samples = self.client()?.with_timeout(millis(timeout_ms)).sample(&table, count)?;
                Ok(samples.iter().map(answer::sample).collect::<Result<Vec<_>, _>>()?.into())
            }
            Command::MutatePriorities { table, updates, deletes } => {
                done(self.client()?.mutate_priorities(&table, &updates, &deletes))
            }
            Command::Reset { table } => done(self.client()?.reset(&table)),
            Command::ServerInfo { timeout_ms } => {
                Ok(answer::server_info(&self.client()?.with_timeout(millis(timeout_ms)).server_info()?))
            }
            Command::Status => Ok(answer::status(&self.client()?.status()?)),
            Command::Checkpoint => Ok(self.client()?.checkpoint()?.into()),
            Command::Sampler { table, options } => {
                self.sampler = Some(self.client()?.sampler(&table, sampler_options(&options))?);
                Ok(Value::Null)
            }
            Command::Next { timeout_ms } => self.next(timeout_ms),
            Command::DropSampler => {
                self.sampler = None;
                Ok(Value::Null)
            }
            writing => self.write(writing),
        }
    }

    fn connect(&mut self, address: &str, timeout_ms: u64) -> Outcome {
        (self.writer, self.sampler) = (None, None);
        let options = ClientOptions::default().timeout(millis(timeout_ms));
        self.client = Some(Client::connect_with(address, options)?);
        Ok(Value::Null)
    }

    fn client(&self) -> Result<&Client, Failure> {
        self.client.as_ref().ok_or_else(|| Failure::new("Driver", "connect first"))
    }

    fn next(&mut self, timeout_ms: u64) -> Outcome {
        let sampler = self.sampler.as_mut().ok_or_else(|| Failure::new("Driver", "make a sampler first"))?;
        match sampler.next_with_timeout(millis(timeout_ms)) {
            Some(sample) => Ok(answer::sample(&sample?)?),
            None => Ok(json!("end")),
        }
    }

    fn write(&mut self, command: Command) -> Outcome {
        match command {
            Command::Writer { num_keep_alive_refs, chunk_length, validate_items, codec } => {
                let mut options =
                    TrajectoryWriterOptions::new(num_keep_alive_refs).validate_items(validate_items);
                if let Some(length) = chunk_length {
                    options = options.chunk_length(length);
                }
                if let Some(codec) = codec {
                    let unknown = || Failure::new("Driver", format!("no codec: {codec}"));
                    options = options.codec(Codec::from_name(&codec).ok_or_else(unknown)?);
                }
                self.writer = Some(Writer::Trajectory(self.client()?.trajectory_writer(options)?));
            }
            Command::StructuredWriter { configs } => {
                let configs = configs.iter().map(PatternConfig::config).collect::<Result<_, _>>()?;
                self.writer = Some(Writer::Structured(self.client()?.structured_writer(configs)?));
            }
            Command::Close => {
                if let Some(mut writer) = self.writer.take() {
                    writer.close()?;
                }
            }
            other => return self.writer()?.carry_out(other),
        }
        Ok(Value::Null)
    }

    fn writer(&mut self) -> Result<&mut Writer, Failure> {
        self.writer.as_mut().ok_or_else(|| Failure::new("Driver", "make a writer first"))
    }
}

impl Writer {
    fn carry_out(&mut self, command: Command) -> Outcome {
        match (self, command) {
            (writer, Command::Append { step, partial }) => writer.append(&step.nest()?, partial),
            (writer, Command::Flush { timeout_ms }) => writer.flush(millis(timeout_ms)),
            (writer, Command::EndEpisode { clear, timeout_ms }) => {
                writer.end_episode(clear, millis(timeout_ms))
            }
            (Writer::Trajectory(writer), Command::CreateItem { table, priority, columns }) => {
                let columns = columns.iter().map(|choice| column(writer, choice));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                Ok(writer.create_item(&table, priority, columns)?.into())
            }
            (_, command) => Err(Failure::new("Driver", format!("not with this writer: {command:?}"))),
        }
    }

    fn append(&mut self, step: &Nest<Tensor>, partial: bool) -> Outcome {
        done(match (self, partial) {
            (Writer::Trajectory(writer), false) => writer.append(step),
            (Writer::Trajectory(writer), true) => writer.append_partial(step),
            (Writer::Structured(writer), false) => writer.append(step),
            (Writer::Structured(writer), true) => writer.append_partial(step),
        })
    }

    fn flush(&mut self, timeout: Duration) -> Outcome {
        done(match self {
            Writer::Trajectory(writer) => writer.flush(timeout),
            Writer::Structured(writer) => writer.flush(timeout),
        })
    }

    fn end_episode(&mut self, clear: bool, timeout: Duration) -> Outcome {
        done(match self {
            Writer::Trajectory(writer) => writer.end_episode(clear, timeout),
            Writer::Structured(writer) => writer.end_episode(clear, timeout),
        })
    }

    fn close(&mut self) -> Result<(), Error> {
        match self {
            Writer::Trajectory(writer) => writer.close(),
            Writer::Structured(writer) => writer.close(),
        }
    }
}

fn column(writer: &TrajectoryWriter, choice: &ColumnChoice) -> Result<Column, Error> {
    let history = writer.history().column(&choice.path)?;
    match (choice.step, &choice.rows, choice.range) {
        (Some(step), ..) => history.step(step),
        (None, Some(rows), _) => history.rows(rows),
        (None, None, Some((start, Some(stop), stride))) => history.strided(start..stop, stride),
        (None, None, Some((start, None, stride))) => history.strided(start.., stride),
        (None, None, None) => history.slice(..),
    }
}

fn sampler_options(asked: &ReaderOptions) -> SamplerOptions {
    let mut options = SamplerOptions::default();
    if let Some(workers) = asked.workers {
        options = options.num_workers(workers);
    }
    if let Some(in_flight) = asked.in_flight {
        options = options.max_in_flight_samples_per_worker(in_flight);
    }
    if let Some(samples) = asked.max_samples {
        options = options.max_samples(samples);
    }
    if let Some(samples) = asked.max_samples_per_stream {
        options = options.max_samples_per_stream(samples);
    }
    if let Some(timeout) = asked.limiter_timeout_ms {
        options = options.rate_limiter_timeout(millis(timeout));
    }
    options
}

fn done(result: Result<(), Error>) -> Outcome {
    Ok(result.map(|()| Value::Null)?)
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
