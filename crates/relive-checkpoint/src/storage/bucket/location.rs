//! Creates the client for the service in a URL.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::http::Connector;
use super::limits::{FIRST_PAUSE, LONGEST_PAUSE, MAX_RETRIES, RETRY_FOR};
use crate::{Error, ErrorKind};

/// An object storage service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    /// Returns the service for a URL scheme.
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Google),
            "az" => Some(Self::Azure),
            _ => None,
        }
    }

    /// Returns the source of the service's credentials, for the message about refused credentials.
    pub(super) fn credentials(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with AWS_REGION, and AWS_ENDPOINT_URL for a service \
                 other than Amazon's), or run on a machine with a role"
            }
            Self::Google => {
                "set GOOGLE_SERVICE_ACCOUNT to the key file of a service account, or run on a machine with one"
            }
            Self::Azure => {
                "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or a SAS token or client secret"
            }
        }
    }
}

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) service: Service,
    pub(super) bucket: String,
    /// The prefix, which is empty for the whole bucket.
    pub(super) prefix: Path,
    /// The normalized URL, without a trailing slash.
    pub(super) url: String,
}

impl Location {
    /// `None` if the scheme is unknown.
    pub(super) fn parse(url: &str) -> Result<Option<Self>, Error> {
        let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
        let Some(service) = Service::of(scheme) else { return Ok(None) };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refused(url, format!("it has no bucket; expected `{scheme}://BUCKET/PREFIX`")));
        }
        if bucket.contains(['@', ':', '?', '#', '%']) {
            let expected =
                format!("`{bucket}` is not a valid bucket name; expected `{scheme}://BUCKET/PREFIX`");
            return Err(refused(url, expected));
        }
        let prefix = Path::parse(prefix).map_err(|error| refused(url, error))?;
        let slash = if prefix.as_ref().is_empty() { "" } else { "/" };
        let url = format!("{scheme}://{bucket}{slash}{prefix}");
        Ok(Some(Self { service, bucket: bucket.to_owned(), prefix, url }))
    }

    /// Returns the client, with credentials and endpoint from environment variables.
    pub(super) fn client(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        let built = match self.service {
            Service::S3 => self.s3(AmazonS3Builder::from_env()),
            Service::Google => self.google(),
            Service::Azure => self.azure(),
        };
        built.map_err(|error| refused(&self.url, format!("{error}; {}", self.service.credentials())))
    }

    pub(super) fn s3(&self, builder: AmazonS3Builder) -> object_store::Result<Arc<dyn ObjectStore>> {
        // Objects are deleted one at a time, because not every service supports bulk requests.
        let builder = builder.with_bucket_name(&self.bucket).with_disable_bulk_delete(true);
        Ok(Arc::new(builder.with_http_connector(Connector).with_retry(retries()).build()?))
    }

    fn google(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&self.bucket);
        Ok(Arc::new(builder.with_http_connector(Connector).with_retry(retries()).build()?))
    }

    fn azure(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let builder = MicrosoftAzureBuilder::from_env().with_container_name(&self.bucket);
        Ok(Arc::new(builder.with_http_connector(Connector).with_retry(retries()).build()?))
    }
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2. };
    RetryConfig { backoff, max_retries: MAX_RETRIES, retry_timeout: RETRY_FOR }
}

fn refused(url: &str, reason: impl std::fmt::Display) -> Error {
    Error::plain(ErrorKind::Location, format!("cannot use {url}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<(Service, String, String, String)> {
        let location = Location::parse(url).unwrap()?;
        Some((location.service, location.bucket, location.prefix.to_string(), location.url))
    }

    #[test]
    fn a_url_is_parsed_into_service_bucket_and_prefix() {
        let expected = |service, prefix: &str, url: &str| {
            Some((service, "replay".to_owned(), prefix.to_owned(), url.to_owned()))
        };
        assert_eq!(parsed("s3://replay/a/b/"), expected(Service::S3, "a/b", "s3://replay/a/b"));
        assert_eq!(parsed("gs://replay"), expected(Service::Google, "", "gs://replay"));
        assert_eq!(parsed("az://replay/"), expected(Service::Azure, "", "az://replay"));
        assert_eq!(parsed("s3://replay/my runs"), expected(Service::S3, "my runs", "s3://replay/my runs"));
        assert_eq!(parsed("http://replay/a"), None);
        assert_eq!(parsed("/a/b"), None);
    }

    #[test]
    fn an_invalid_url_is_refused() {
        let refusal = |url: &str| Location::parse(url).unwrap_err().to_string();
        let expected = "cannot use s3:///a: it has no bucket; expected `s3://BUCKET/PREFIX`";
        assert_eq!(refusal("s3:///a"), expected);
        assert!(refusal("s3://key:secret@bucket/a").contains("is not a valid bucket name"));
        assert!(refusal("s3://bucket/a//b").starts_with("cannot use s3://bucket/a//b: "));
        assert!(refusal("s3://bucket/../b").starts_with("cannot use s3://bucket/../b: "));
    }
}
