use crate::kernels::wide;

/// Pictures of bytes as the numbers that networks read: each byte times `scale`, 1/255 say.
pub fn scale_bytes(bytes: &[u8], scale: f32, into: &mut Vec<f32>) {
    into.resize(bytes.len(), 0.0);
    wide(|| into.iter_mut().zip(bytes).for_each(|(to, from)| *to = f32::from(*from) * scale));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_scaled() {
        let mut floats = vec![9.0; 7];
        scale_bytes(&[0, 51, 255], 1.0 / 255.0, &mut floats);
        assert_eq!(floats.len(), 3);
        assert!((floats[1] - 0.2).abs() < 1e-7 && floats[0] == 0.0 && floats[2] == 1.0);
    }
}
