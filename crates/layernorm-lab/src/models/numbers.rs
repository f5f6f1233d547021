//! A network's parameters as plain numbers, named by their paths, and parameter ids that are the same in every network
//! of one architecture. Burn's ids are random, and the optimizer's state is keyed by them.

use crate::training::tensors::{Entry, Named};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};
use std::collections::BTreeMap;

/// Every parameter and running statistic of a network, in module order.
///
/// Running statistics are included only after they have been read once, which [`Module::valid`] does.
pub(crate) fn numbers<M: Module>(net: &M) -> Result<Vec<Named>, String> {
    let mut reader = Reader { path: Vec::new(), found: Ok(Vec::new()) };
    net.visit(&mut reader);
    reader.found
}

/// The network with these numbers: one tensor of the same shape for each of its own. The error says what does not fit.
pub(crate) fn with_numbers<M: Module>(net: M, tensors: Vec<Named>) -> Result<M, String> {
    let mut given = BTreeMap::new();
    for Named { entry: Entry { name, shape }, numbers } in tensors {
        if given.insert(name.clone(), (shape, numbers)).is_some() {
            return Err(format!("tensor {name:?}: expected once, found twice"));
        }
    }
    let mut writer = Writer { path: Vec::new(), given, wrong: None };
    let net = net.map(&mut writer);
    match (writer.wrong, writer.given.keys().next()) {
        (Some(wrong), _) => Err(wrong),
        (None, Some(name)) => Err(format!("tensor {name:?}: not part of this network")),
        (None, None) => Ok(net),
    }
}

/// The network with ids derived from the order of its parameters.
pub(crate) fn numbered<M: Module>(net: M) -> M {
    net.map(&mut Numberer { next: 0 })
}

struct Reader {
    path: Vec<String>,
    found: Result<Vec<Named>, String>,
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Ok(found) = &mut self.found else { return };
        let (name, tensor) = (self.path.join("."), param.val());
        let shape = tensor.dims().to_vec();
        match tensor.into_data().try_into_vec_as::<f32>() {
            Ok(numbers) => found.push(Named { entry: Entry { name, shape }, numbers }),
            Err(error) => self.found = Err(format!("tensor {name:?}: {error:?}")),
        }
    }
}

struct Writer {
    path: Vec<String>,
    given: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    wrong: Option<String>,
}

impl ModuleMapper for Writer {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (name, expected) = (self.path.join("."), param.dims().to_vec());
        match self.given.remove(&name) {
            Some((shape, numbers)) if shape == expected => {
                let tensor = Tensor::from_data(TensorData::new(numbers, shape), &param.device());
                let id = param.id;
                return param.transform_for_load(tensor, id);
            }
            Some((shape, _)) => {
                self.wrong.get_or_insert(format!("tensor {name:?}: expected shape {expected:?}, found {shape:?}"))
            }
            None => self.wrong.get_or_insert(format!("tensor {name:?}: expected shape {expected:?}, found none")),
        };
        param
    }
}

struct Numberer {
    next: u64,
}

impl ModuleMapper for Numberer {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (_, tensor, mapper) = param.consume();
        self.next += 1;
        Param::from_mapped_value(ParamId::from(self.next), tensor, mapper)
    }
}
