//! Opens the storage at a location.

use std::sync::Arc;

#[cfg(feature = "object-storage")]
use super::BucketStorage;
use super::{LocalStorage, Storage};
use crate::{Error, ErrorKind};

/// Opens the storage at a path or URL.
pub(crate) fn open(location: &str) -> Result<Arc<dyn Storage>, Error> {
    match location.split_once("://") {
        None => Ok(Arc::new(LocalStorage::new(location))),
        Some(("file", path)) => Ok(Arc::new(LocalStorage::new(path))),
        Some((scheme, _)) => match bucket(location)? {
            Some(bucket) => Ok(bucket),
            None => {
                let text = format!(
                    "cannot use {location}: unknown storage `{scheme}`; use a path, s3://, gs:// or az://"
                );
                Err(Error::plain(ErrorKind::Location, text))
            }
        },
    }
}

#[cfg(feature = "object-storage")]
fn bucket(location: &str) -> Result<Option<Arc<dyn Storage>>, Error> {
    let bucket = BucketStorage::open(location)?;
    Ok(bucket.map(|bucket| -> Arc<dyn Storage> { Arc::new(bucket) }))
}

#[cfg(not(feature = "object-storage"))]
fn bucket(location: &str) -> Result<Option<Arc<dyn Storage>>, Error> {
    if !["s3://", "gs://", "az://"].iter().any(|scheme| location.starts_with(scheme)) {
        return Ok(None);
    }
    let text = format!(
        "cannot use {location}: this build has no object storage; build it with the feature `object-storage`"
    );
    Err(Error::plain(ErrorKind::Location, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_storage_kind_is_refused() {
        let error = open("ftp://host/a").map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Location);
        let expected = "cannot use ftp://host/a: unknown storage `ftp`; use a path, s3://, gs:// or az://";
        assert_eq!(error.to_string(), expected);
    }

    #[cfg(not(feature = "object-storage"))]
    #[test]
    fn a_bucket_url_requires_the_object_storage_feature() {
        let error = open("s3://bucket/a").map(drop).unwrap_err();
        assert!(error.to_string().ends_with("build it with the feature `object-storage`"));
    }
}
