//! An item in its table, and what it is like.

use std::sync::Arc;

use relive_tensor::{Plain, PlainLayout};
use yoke::Yoke;

use crate::{ItemData, ItemView};

/// The number of a layout in its table's [`Layouts`]. None is [`ANY`](Self::ANY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutId(u32);

impl LayoutId {
    /// Of items that are no run of bytes, or a long one, or unlike too many others.
    pub(crate) const ANY: Self = Self(0);
}

/// What the plain items of a table are like, each layout once.
#[derive(Debug, Default)]
pub(crate) struct Layouts(Vec<PlainLayout>);

/// Layouts beyond these are not told apart: there is one in nearly every table.
const MAX_LAYOUTS: usize = 16;

/// Bytes of the longest items whose places are kept: of longer ones the way to them is a small part.
const MAX_PLAIN_BYTES: usize = 4_096;

impl Layouts {
    pub(crate) fn find(&self, layout: &PlainLayout) -> Option<LayoutId> {
        self.position(|known| known == layout)
    }

    fn id_of(&mut self, plain: &Plain<'_>) -> LayoutId {
        self.position(|known| plain.is_like(known)).unwrap_or_else(|| self.add(plain.layout()))
    }

    fn position(&self, is_it: impl Fn(&PlainLayout) -> bool) -> Option<LayoutId> {
        let at = self.0.iter().position(is_it)?;
        u32::try_from(at + 1).ok().map(LayoutId)
    }

    fn add(&mut self, layout: PlainLayout) -> LayoutId {
        if self.0.len() >= MAX_LAYOUTS {
            return LayoutId::ANY;
        }
        self.0.push(layout);
        u32::try_from(self.0.len()).map_or(LayoutId::ANY, LayoutId)
    }
}

/// An item and what changes about it.
#[derive(Debug)]
pub(crate) struct Record {
    /// The item, and its bytes where they lie if it has a layout: reading a small item takes the way by neither its data nor its chunk.
    item: Yoke<&'static [u8], Arc<ItemData>>,
    /// The same as in the item, here to spare a look-up the way there.
    pub(crate) key: u64,
    pub(crate) priority: f64,
    pub(crate) times_sampled: i32,
    layout: LayoutId,
}

impl Record {
    pub(crate) fn new(data: Arc<ItemData>, priority: f64, times_sampled: i32, layouts: &mut Layouts) -> Self {
        let (key, mut layout) = (data.key, LayoutId::ANY);
        let item = Yoke::attach_to_cart(data, |data| {
            let plain = data.trajectory.plain().filter(|plain| plain.bytes.len() <= MAX_PLAIN_BYTES);
            plain.map_or(&[][..], |plain| {
                layout = layouts.id_of(&plain);
                plain.bytes
            })
        });
        Self { item, key, priority, times_sampled, layout }
    }

    pub(crate) fn data(&self) -> &Arc<ItemData> {
        self.item.backing_cart()
    }

    pub(crate) fn into_data(self) -> Arc<ItemData> {
        self.item.into_backing_cart()
    }

    pub(crate) fn is_of(&self, layout: LayoutId) -> bool {
        self.layout == layout
    }

    /// The item's bytes, if it is of this layout.
    pub(crate) fn plain(&self, layout: LayoutId) -> Option<&[u8]> {
        (self.layout == layout && layout != LayoutId::ANY).then(|| *self.item.get())
    }

    pub(crate) fn view(&self) -> ItemView<'_> {
        ItemView { data: self.data(), priority: self.priority, times_sampled: self.times_sampled }
    }
}
