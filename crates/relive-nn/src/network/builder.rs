use super::conv::{Conv, ConvShape};
use super::dense::Dense;
use super::init::LinearInit;
use super::net::Network;
use super::norm::LayerNorm;
use super::plan::Plan;
use super::stack::Duelling;
use super::stack::Layer;
use super::stack::Stack;
use crate::kernels::activation::Activation;
use crate::kernels::patches::PatchShape;
use crate::params::Layout;

/// Builds a [`Network`] layer by layer. The name of a leaf consists of the network's name, the layer's number, and `w`,
/// `b`, `scale` or `offset`.
#[derive(Debug)]
pub struct NetworkBuilder<'a> {
    plan: Plan<'a>,
    stack: Stack,
    init: LinearInit,
    image: Option<(usize, usize, usize)>,
}

impl Network {
    /// Starts a network that adds its leaves to a layout under a name.
    ///
    /// # Panics
    /// If `inputs` is 0.
    pub fn builder<'a>(layout: &'a mut Layout, name: &str, inputs: usize) -> NetworkBuilder<'a> {
        NetworkBuilder::new(layout, name, inputs)
    }
}

impl<'a> NetworkBuilder<'a> {
    pub(crate) fn new(layout: &'a mut Layout, name: &str, inputs: usize) -> Self {
        assert!(inputs > 0, "a network without inputs");
        let stack = Stack { inputs, layers: Vec::new() };
        Self { plan: Plan::new(layout, name), stack, init: LinearInit::default(), image: None }
    }

    /// Sets the initialization of the linear and convolutional layers that follow. The default is
    /// [`LinearInit::LecunNormal`].
    #[must_use]
    pub fn init(mut self, init: LinearInit) -> Self {
        self.init = init;
        self
    }

    /// Adds a linear layer with biases.
    #[must_use]
    pub fn linear(mut self, outputs: usize) -> Self {
        let (inputs, init) = (self.stack.outputs(), self.init);
        let layer = Dense::new(&mut self.next(), inputs, outputs, init);
        self.push(Layer::Dense(layer))
    }

    /// Sets the activation function of the last layer.
    ///
    /// # Panics
    /// If there is no layer yet, or the last layer is a duelling head.
    #[must_use]
    pub fn activation(mut self, activation: Activation) -> Self {
        let last = self.stack.layers.last_mut().and_then(Layer::activation_mut);
        *last.expect("an activation follows a linear, convolutional or normalizing layer") = activation;
        self
    }

    /// Adds linear layers with the given widths, each with the same activation.
    #[must_use]
    pub fn mlp(self, hidden: &[usize], activation: Activation) -> Self {
        hidden.iter().fold(self, |builder, width| builder.linear(*width).activation(activation))
    }

    /// Adds a normalization of each row (Ba et al. 2016), with scale and offset.
    #[must_use]
    pub fn layer_norm(mut self) -> Self {
        let width = self.stack.outputs();
        let layer = LayerNorm::new(&mut self.next(), width);
        self.push(Layer::Norm(layer))
    }

    /// Adds Acme's LayerNormMLP: a linear layer, normalization, tanh, and then linear layers with ELU between them, and
    /// also after the last layer if `activate_final` is set. Initial weights are uniform with variance (1/3)/fan_out.
    ///
    /// # Panics
    /// If there are no sizes.
    #[must_use]
    pub fn layer_norm_mlp(self, sizes: &[usize], activate_final: bool) -> Self {
        let (first, rest) = sizes.split_first().expect("at least one layer");
        let before = self.init;
        let begun = self.init(LinearInit::UniformFanOut { scale: 1.0 / 3.0 }).linear(*first);
        let begun = begun.layer_norm().activation(Activation::Tanh);
        let (hidden, last) = rest.split_at(rest.len().saturating_sub(1));
        let last_activation = if activate_final { Activation::Elu } else { Activation::Identity };
        begun.mlp(hidden, Activation::Elu).mlp(last, last_activation).init(before)
    }

    /// Declares that rows are images: height, width, channels, with channels last.
    ///
    /// # Panics
    /// If rows have a different width.
    #[must_use]
    pub fn image(mut self, height: usize, width: usize, channels: usize) -> Self {
        assert_eq!(
            height * width * channels,
            self.stack.outputs(),
            "an image must have as many elements as a row"
        );
        self.image = Some((height, width, channels));
        self
    }

    /// Adds a convolution without padding, with square kernels and biases.
    ///
    /// # Panics
    /// If the rows are not images, the images are smaller than the kernel, or `kernel` or `stride` is 0.
    #[must_use]
    pub fn conv(mut self, filters: usize, kernel: usize, stride: usize) -> Self {
        let (height, width, channels) = self.image.expect("convolutions follow `image` or each other");
        assert!(
            kernel > 0 && stride > 0,
            "a kernel of {kernel} at stride {stride}, but both must be at least 1"
        );
        assert!(
            height >= kernel && width >= kernel,
            "an image of {height} x {width} under a kernel of {kernel}"
        );
        let patch = PatchShape { height, width, channels, kernel, stride };
        let init = self.init;
        let layer = Conv::new(&mut self.next(), ConvShape { patch, filters }, init);
        let (rows, columns) = patch.grid();
        let mut builder = self.push(Layer::Conv(layer));
        builder.image = Some((rows, columns, filters));
        builder
    }

    /// Adds the torso of Mnih et al. 2015 for images of 84 x 84: 32 filters of 8 x 8 at stride 4, 64 of 4 x 4 at stride
    /// 2, and 64 of 3 x 3 at stride 1, each with ReLU. It has 3,136 outputs.
    #[must_use]
    pub fn nature_torso(self) -> Self {
        let layers = [(32, 8, 4), (64, 4, 2), (64, 3, 1)];
        layers.into_iter().fold(self, |builder, (filters, kernel, stride)| {
            builder.conv(filters, kernel, stride).activation(Activation::Relu)
        })
    }

    /// Adds a duelling head: a value and advantages, each with its own hidden ReLU layers, combined as `v + a −
    /// mean(a)`.
    #[must_use]
    pub fn duelling(self, hidden: &[usize], actions: usize) -> Self {
        self.duelling_atoms(hidden, actions, 1)
    }

    /// Adds a duelling head with several numbers per action, each combined separately, such as the logits of atoms.
    /// Rows are ordered by action.
    #[must_use]
    pub fn duelling_atoms(mut self, hidden: &[usize], actions: usize, atoms: usize) -> Self {
        let (inputs, init) = (self.stack.outputs(), self.init);
        let mut plan = self.next();
        let value = stream(&mut plan.inside("value"), inputs, hidden, atoms, init);
        let advantage = stream(&mut plan.inside("advantage"), inputs, hidden, actions * atoms, init);
        self.push(Layer::Duelling(Box::new(Duelling { value, advantage, atoms })))
    }

    /// Finishes the network.
    pub fn build(self) -> Network {
        Network::new(self.stack, self.plan.range())
    }

    fn next(&mut self) -> Plan<'_> {
        let number = self.stack.layers.len();
        self.plan.inside(&number.to_string())
    }

    fn push(mut self, layer: Layer) -> Self {
        self.stack.layers.push(layer);
        self.image = None;
        self
    }
}

/// Creates hidden linear layers with ReLU, and a linear output layer.
fn stream(plan: &mut Plan<'_>, inputs: usize, hidden: &[usize], outputs: usize, init: LinearInit) -> Stack {
    let mut stack = Stack { inputs, layers: Vec::new() };
    for (number, width) in hidden.iter().chain([&outputs]).enumerate() {
        let inputs = stack.outputs();
        let mut layer = Dense::new(&mut plan.inside(&number.to_string()), inputs, *width, init);
        layer.activation = if number < hidden.len() { Activation::Relu } else { Activation::Identity };
        stack.layers.push(Layer::Dense(layer));
    }
    stack
}
